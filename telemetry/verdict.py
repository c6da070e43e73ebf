"""May the numbers of a run be believed? Plain rules, plain words."""

from collections import Counter
from collections.abc import Iterator

from edgepipe.telemetry.energy_meter import LEAST_COVERAGE
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics, StreamStatistics
from edgepipe.telemetry.stats import PERCENTILES, samples_needed

STAGE_FAILURES = ("failed:stage_error", "failed:bad_output", "failed:hung")
"""Fates that mean that a stage broke, not that the input was bad."""

_SHORT = 0.99
"""A run is short when less than this share of the time asked for was measured."""


def invalid_because(facts: RunFacts, statistics: RunStatistics) -> list[str]:
    """Why the numbers may not be believed, one line each; empty for a valid run.

    Deadline misses are results: they make no run invalid.
    """
    return [
        # Only a bench claims anything about what it did not see.
        *(_too_little(facts, statistics) if facts.command == "bench" else ()),
        *_of_the_run(facts),
        *_of_the_power(facts),
        *_of_the_sources(facts),
        *(
            line
            for stream in facts.streams
            for line in _of_a_stream(stream, statistics.stream(stream.stream))
        ),
    ]


def _too_little(facts: RunFacts, statistics: RunStatistics) -> Iterator[str]:
    measured_ns = facts.duration_ns
    if facts.asked_ns is not None and measured_ns < _SHORT * facts.asked_ns:
        yield (
            f"stopped early: {measured_ns / 1e9:.1f} s measured of"
            f" {facts.asked_ns / 1e9:.1f} s asked for"
        )
    for stream in facts.streams:
        measured = statistics.stream(stream.stream)
        yield from _too_few(f"stream {stream.stream!r}", measured)


def _of_the_run(facts: RunFacts) -> Iterator[str]:
    if facts.forced_stop:
        yield f"the pipeline was forced to stop: {facts.forced_stop}"
    if not facts.balanced:
        yield "the ledger does not balance: some frame has no fate, or more than one"
    for found in facts.irregularities:
        yield f"while it ran: {found}"
    for found in facts.preflight:
        yield f"before it ran, the machine was not fit for a bench: {found}"
    if not facts.streams:
        yield "no stream was run"


def _of_the_power(facts: RunFacts) -> Iterator[str]:
    """What is wrong with the power figure, where one was asked for."""
    if not facts.power_required:
        return
    powers = facts.device.powers
    if not powers:
        yield f"telemetry.sensors.require_power: {facts.device.no_power}"
    elif powers[0].run.mean_w is None:
        yield f"telemetry.sensors.require_power: {powers[0].run.reason}"
    elif powers[0].run.coverage < LEAST_COVERAGE:
        share = f"{powers[0].run.coverage:.0%}".replace("%", " %")
        yield f"telemetry.sensors.require_power: only {share} of the time was measured"


def _of_the_sources(facts: RunFacts) -> Iterator[str]:
    for source in facts.sources:
        if source.state == "failed":
            yield f"stream {source.stream!r}: the source failed: {source.detail}"


def _of_a_stream(facts: StreamFacts, measured: StreamStatistics) -> Iterator[str]:
    name = f"stream {facts.stream!r}"
    in_ledger = Counter(facts.fates)
    in_records = measured.fates + measured.warm_up_fates
    if in_ledger != in_records:
        yield (
            f"{name}: the ledger counts {_counts(in_ledger)},"
            f" the frame records {_counts(in_records)}"
        )
    broken = sum(in_ledger[fate] for fate in STAGE_FAILURES)
    if broken:
        yield f"{name}: a stage failed on {broken} of {facts.captured} frames"


def _too_few(name: str, measured: StreamStatistics) -> Iterator[str]:
    needed = samples_needed(PERCENTILES["p99"])
    frames = measured.fates.total()
    if not frames:
        yield f"{name}: no frame was measured"
    elif measured.delivered < needed:
        yield (
            f"{name}: {measured.delivered} of {frames} frames were delivered,"
            f" and a p99 needs {needed}"
        )


def _counts(fates: Counter[str]) -> str:
    return ", ".join(f"{fate} {n}" for fate, n in sorted(fates.items()) if n) or "none"
