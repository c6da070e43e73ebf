"""Whether figures that are measured on a machine, here and now, may be trusted."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from edgepipe.telemetry.machine.finding import BENCH_AREAS, Finding


class Fitness(NamedTuple):
    """The answer for benches."""

    reasons: tuple[str, ...]
    """What speaks against it, one line each; empty: nothing does."""
    against: tuple[str, ...]
    """The same in brief, by area: ``heat (temperature, throttling)``."""
    unknown: tuple[str, ...]
    """What matters for it and could not be found out, by area."""

    @property
    def is_fit(self) -> bool:
        """Whether nothing that was found speaks against it."""
        return not self.reasons


def fitness(found: Sequence[Finding]) -> Fitness:
    """Judge findings, sorted by area; the unknown speaks neither for nor against."""
    against = [each for each in found if each.speaks_against_a_bench]
    unknown = [each for each in found if not each.known and each.area in BENCH_AREAS]
    reasons = (f"{each.area.value}, {each.subject}: {each.found}" for each in against)
    return Fitness(tuple(reasons), _by_area(against), _by_area(unknown))


def _by_area(found: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(
        f"{area.value} ({', '.join(each.subject for each in those)})"
        for area, those in groupby(found, lambda each: each.area)
    )
