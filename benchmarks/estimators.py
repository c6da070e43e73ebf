"""Which estimator of service times the scheduler should use.

The scheduler asks three things of a step's service time: could the frame end in time
on a good day (the 25 % quantile, to give frames up), will it as a rule (75 %, to plan),
and how long may it block others (95 %, to guard). This script runs estimators of
quantiles over the same seeded times and counts how often a time exceeds its estimate:

- *steady*: lognormal times, sigma 5 %. The share above the estimate should be the
  target; ``est/true`` is the mean ratio to the true quantile, and its spread;
- the clock *halves* at sample 6000 and is back at 12000. Exceedances among the 300
  samples after the halving when the scheduler is not told, when it is, and when it is
  told 15 samples late; then how many samples after the return, not told, until the
  estimate is within 10 % of the true quantile again;
- *bimodal*: from 15000 on, two in a hundred take three times as long;
- *blocks*: another series, in which a common factor (lognormal, sigma 15 %) holds for
  60 samples in the mean, as a crowd or a tunnel does. Share above the estimate, and
  the worst 300 samples in a row.

``us`` is the cost of one observation with the three quantiles 25, 75 and 95 % kept and
read. Estimators see work: service time times clock, as far as the clock is known to
them. Everything is integers, as it would be in the scheduler.

    python benchmarks/estimators.py [--seeds 5] [--json]
"""

import argparse
import json
import math
import random
import statistics
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Protocol

from edgepipe.scheduler.budget import ServiceTimes

WHOLE = 1000
"""Levels and clocks are in thousandths."""
KEPT = (250, 750, 950)
"""What the scheduler would keep at once: to give up, to plan, to guard."""
LEVELS = (*KEPT, 990)
SIGMA = 0.05
BASE_NS = 6_000_000

SAMPLES = 20_000
SETTLED, HALVED, RESTORED, BIMODAL = 1000, 6000, 12_000, 15_000
AFTER = 300
REPORT_DELAY = 15
"""Samples between a change of the clock and the report of it."""
SLOW_CHANCE, SLOW_FACTOR = 0.02, 3
BLOCK_SAMPLES, BLOCK_SIGMA = 60, 0.15


class Estimator(Protocol):
    """Keeps some quantiles of what it observes."""

    @property
    def estimates(self) -> Sequence[int]:
        """One for each level it was made with; 0 while nothing can be said."""
        ...

    def observe(self, work: int) -> None:
        """Take in one more time."""
        ...


Factory = Callable[[Sequence[int]], Estimator]


def rank(level: int, n: int) -> int:
    """Index of the sorted sample that a further one exceeds in 1 - level of cases.

    Among n + 1 exchangeable samples the last has each rank equally often, so the one
    at the ceiling of level * (n + 1) is exceeded no more often than asked (split
    conformal prediction; Vovk, Gammerman and Shafer, 2005).
    """
    return min(n, -(-level * (n + 1) // WHOLE)) - 1


class Window:
    """Order statistics of the last ``size`` samples."""

    def __init__(self, levels: Sequence[int], size: int) -> None:
        self.size = size
        self.ranks = [[rank(q, n) for q in levels] for n in range(1, size + 1)]
        self.recent: deque[int] = deque()
        self.ordered: list[int] = []
        self.estimates = [0 for _ in levels]

    def observe(self, work: int) -> None:
        """Replace the oldest sample."""
        self.replace(work)
        ordered = self.ordered
        self.estimates = [ordered[i] for i in self.ranks[len(ordered) - 1]]

    def replace(self, work: int) -> None:
        """Let the oldest sample go, take the new one in."""
        recent, ordered = self.recent, self.ordered
        if len(recent) == self.size:
            del ordered[bisect_left(ordered, recent.popleft())]
        recent.append(work)
        insort(ordered, work)

    def keep(self, count: int) -> None:
        """Forget all but the last ``count`` samples."""
        kept = list(self.recent)[-count:]
        self.recent.clear()
        self.recent.extend(kept)
        self.ordered[:] = sorted(kept)


class NearestRank(Window):
    """The same with the rank level * n, as most people write it."""

    def __init__(self, levels: Sequence[int], size: int) -> None:
        super().__init__(levels, size)
        self.ranks = [
            [max(0, -(-q * n // WHOLE) - 1) for q in levels] for n in range(1, size + 1)
        ]


class Adaptive(Window):
    """A window whose levels are steered so that exceedances come as often as asked.

    Adaptive conformal inference (Gibbs and Candes, NeurIPS 2021): each exceedance
    raises the level by ``gain * level``, each other sample lowers it by
    ``gain * (1 - level)``, with a gain of 2 %.
    """

    def __init__(self, levels: Sequence[int], size: int, gain: int = 20) -> None:
        super().__init__(levels, size)
        self.levels = [q * WHOLE for q in levels]  # in millionths
        self.ups = [gain * q for q in levels]
        self.downs = [gain * (WHOLE - q) for q in levels]

    def observe(self, work: int) -> None:
        """Steer by what was estimated, then replace the oldest sample."""
        levels = self.levels
        for i, estimate in enumerate(self.estimates):
            if work > estimate:
                levels[i] = min(WHOLE * WHOLE, levels[i] + self.ups[i])
            else:
                levels[i] = max(0, levels[i] - self.downs[i])
        self.replace(work)
        ordered = self.ordered
        n = len(ordered)
        self.estimates = [
            ordered[min(n, -(-level * (n + 1) // (WHOLE * WHOLE))) - 1] if level else 0
            for level in levels
        ]


class Run:
    """Counts samples in a row on one side of a range."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.side = 0
        """Samples in a row above (positive) or below (negative)."""

    def ends(self, work: int, low: int, high: int) -> bool:
        """Whether this sample completes a run."""
        side = self.side
        if work > high:
            side = side + 1 if side > 0 else 1
        elif work < low:
            side = side - 1 if side < 0 else -1
        else:
            side = 0
        if side in (self.length, -self.length):
            self.side = 0
            return True
        self.side = side
        return False


class Restarting(Window):
    """A window that forgets what came before a shift.

    A run of samples above the upper or below the lower of two of its own quantiles is
    a new regime, and only the run is kept. Of independent samples one in
    ``(tail / 1000) ** -length`` or so ends such a run by chance (65 000 for 8 beyond
    the quarters), which costs some coarse estimates.
    """

    def __init__(
        self, levels: Sequence[int], size: int, length: int, tail: int = 250
    ) -> None:
        super().__init__(levels, size)
        self.run = Run(length)
        self.edges = [
            (rank(tail, n), rank(WHOLE - tail, n)) for n in range(1, size + 1)
        ]

    def observe(self, work: int) -> None:
        """Restart at the end of a run, replace the oldest sample."""
        ordered = self.ordered
        if len(ordered) >= self.run.length:
            low, high = self.edges[len(ordered) - 1]
            if self.run.ends(work, ordered[low], ordered[high]):
                self.keep(self.run.length - 1)
        super().observe(work)


class RestartingByMean(Window):
    """The same by a fast mean against the window's median.

    When the mean of the last samples (EWMA, gain 1/4) has lain outside 0.75 to 1.25
    of the median for four samples in a row, only these are kept.
    """

    def __init__(self, levels: Sequence[int], size: int, length: int = 4) -> None:
        super().__init__(levels, size)
        self.run = Run(length)
        self.mean = 0

    def observe(self, work: int) -> None:
        """Update the mean, restart if it has left the window, replace the oldest."""
        ordered = self.ordered
        self.mean += (work - self.mean) // 4 if ordered else work
        if len(ordered) >= self.run.length:
            median = ordered[len(ordered) // 2]
            if self.run.ends(4 * self.mean, 3 * median, 5 * median):
                self.keep(self.run.length - 1)
        super().observe(work)


class AdaptiveRestarting(Adaptive):
    """Both: steered levels, and a window that forgets at a shift."""

    def __init__(self, levels: Sequence[int], size: int, length: int) -> None:
        super().__init__(levels, size)
        self.run = Run(length)
        self.targets = tuple(self.levels)

    def observe(self, work: int) -> None:
        """Restart at the end of a run, then steer and replace the oldest sample."""
        ordered = self.ordered
        n = len(ordered)
        if n >= self.run.length and self.run.ends(
            work, ordered[rank(250, n)], ordered[rank(750, n)]
        ):
            self.keep(self.run.length - 1)
            self.levels[:] = self.targets
        super().observe(work)


class Scheduler:
    """The scheduler's own: what :mod:`edgepipe.scheduler.budget` has for a step."""

    def __init__(self, levels: Sequence[int]) -> None:
        if tuple(levels) != KEPT:
            raise ValueError(f"the scheduler keeps {KEPT}, got {levels}")
        self.times = ServiceTimes()

    @property
    def estimates(self) -> list[int]:
        """To give up, to plan, to guard."""
        return [self.times.shed_ns, self.times.plan_ns, self.times.guard_ns]

    def observe(self, work: int) -> None:
        """Clocks are dealt with outside."""
        self.times.observe(work)


class MeanAndDeviation:
    """Mean plus k mean deviations, as TCP times its retransmissions (RFC 6298)."""

    def __init__(self, levels: Sequence[int]) -> None:
        # The mean deviation of a normal distribution is 0.8 sigma. For the 95 %
        # quantile people take k = 3; the others are scaled alike.
        normal = NormalDist()
        k_95 = normal.inv_cdf(0.95)
        self.k = [round(300 * normal.inv_cdf(q / WHOLE) / k_95) for q in levels]
        self.mean = 0
        self.deviation = 0
        self.estimates = [0 for _ in levels]

    def observe(self, work: int) -> None:
        """Gains 1/8 and 1/4."""
        if self.mean:
            self.deviation += (abs(work - self.mean) - self.deviation) // 4
            self.mean += (work - self.mean) // 8
        else:
            self.mean, self.deviation = work, work // 2
        mean, deviation = self.mean, self.deviation
        self.estimates = [mean + k * deviation // 100 for k in self.k]


class Steps:
    """Stochastic approximation with multiplicative steps (after Robbins and Monro).

    Up by the share ``gain * level`` at an exceedance, down by ``gain * (1 - level)``
    otherwise: in balance when exceedances come as often as asked.
    """

    def __init__(self, levels: Sequence[int], gain: int) -> None:
        self.ups = [gain * q for q in levels]
        self.downs = [gain * (WHOLE - q) for q in levels]
        self.estimates = [0 for _ in levels]

    def observe(self, work: int) -> None:
        """Move every estimate by its step."""
        estimates = self.estimates
        for i, estimate in enumerate(estimates):
            if not estimate:
                estimates[i] = work
            elif work > estimate:
                estimates[i] += estimate * self.ups[i] // (WHOLE * WHOLE)
            else:
                estimates[i] -= estimate * self.downs[i] // (WHOLE * WHOLE)


class FiveMarkers:
    """P2 (Jain and Chlamtac, CACM 1985): five markers for each quantile, no window."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.first: list[int] = []
        self.levels = tuple(levels)
        self.heights: list[list[int]] = []
        self.places = [[0, 1, 2, 3, 4] for _ in levels]
        self.n = 0
        self.estimates = [0 for _ in levels]

    def observe(self, work: int) -> None:
        """Move the markers of every quantile."""
        if len(self.first) < 5:
            insort(self.first, work)
            self.n = len(self.first)
            self.estimates = [self.first[-1] for _ in self.levels]
            self.heights = [list(self.first) for _ in self.levels]
            return
        self.n += 1
        for i, level in enumerate(self.levels):
            self._move(self.heights[i], self.places[i], level, work)
        self.estimates = [heights[2] for heights in self.heights]

    def _move(self, q: list[int], place: list[int], level: int, work: int) -> None:
        q[0], q[4] = min(q[0], work), max(q[4], work)
        cell = next(i for i in (1, 2, 3, 4) if work < q[i] or i == 4)
        for i in range(cell, 5):
            place[i] += 1
        wanted = (level // 2, level, (WHOLE + level) // 2)
        for i in (1, 2, 3):
            ahead = (self.n - 1) * wanted[i - 1] // WHOLE - place[i]
            if ahead >= 1 and place[i + 1] - place[i] > 1:
                self._shift(q, place, i, 1)
            elif ahead <= -1 and place[i - 1] - place[i] < -1:
                self._shift(q, place, i, -1)

    @staticmethod
    def _shift(q: list[int], place: list[int], i: int, step: int) -> None:
        before, here, after = place[i - 1 : i + 2]
        up = (here - before + step) * (q[i + 1] - q[i]) // (after - here)
        down = (after - here - step) * (q[i] - q[i - 1]) // (here - before)
        parabola = q[i] + step * (up + down) // (after - before)
        if not q[i - 1] < parabola < q[i + 1]:
            near = i + step
            parabola = q[i] + step * (q[near] - q[i]) // (place[near] - here)
        q[i] = parabola
        place[i] += step


FACTORIES: dict[str, Factory] = {
    "window 128, nearest rank": lambda q: NearestRank(q, 128),
    "window 64": lambda q: Window(q, 64),
    "window 99": lambda q: Window(q, 99),
    "window 128": lambda q: Window(q, 128),
    "window 512": lambda q: Window(q, 512),
    "window 128, adaptive level": lambda q: Adaptive(q, 128),
    "window 128, restart (mean)": lambda q: RestartingByMean(q, 128),
    "window 99, restart (run of 8)": lambda q: Restarting(q, 99, 8),
    "window 99, restart (run of 6)": lambda q: Restarting(q, 99, 6),
    "window 39, restart (run of 6)": lambda q: Restarting(q, 39, 6),
    "window 99, adaptive, restart": lambda q: AdaptiveRestarting(q, 99, 6),
    "**the scheduler's**": Scheduler,
    "mean + k deviations": MeanAndDeviation,
    "steps of 2 %": lambda q: Steps(q, 20),
    "steps of 10 %": lambda q: Steps(q, 100),
    "P2": FiveMarkers,
}


class Sample(NamedTuple):
    """One service time, what is believed of the clock, and the truth."""

    service: int
    clock: int
    """In thousandths, as the scheduler believes it to be."""
    factor: int
    """Service time of an undisturbed sample over that at full clock."""


def times(seed: int, told: int | None) -> Iterator[Sample]:
    """The main series; ``told`` is the delay of clock reports, None: there are none."""
    rng = random.Random(seed)
    for i in range(SAMPLES):
        factor = 2 if HALVED <= i < RESTORED else 1
        slow = rng.random() < SLOW_CHANCE and i >= BIMODAL
        work = BASE_NS * rng.lognormvariate(0, SIGMA) * (SLOW_FACTOR if slow else 1)
        known = told is not None and HALVED + told <= i < RESTORED + told
        yield Sample(round(work * factor), WHOLE // 2 if known else WHOLE, factor)


def blocks(seed: int) -> Iterator[Sample]:
    """Times with a common factor for some samples in a row."""
    rng = random.Random(seed)
    common = 1.0
    for _ in range(SAMPLES):
        if rng.random() < 1 / BLOCK_SAMPLES:
            common = rng.lognormvariate(0, BLOCK_SIGMA)
        work = BASE_NS * common * rng.lognormvariate(0, SIGMA)
        yield Sample(round(work), WHOLE, 1)


@dataclass
class Followed:
    """What happened at every sample, for one level."""

    exceeded: list[bool]
    ratio: list[float]
    """Estimate over true quantile of an undisturbed sample."""


def levels_of(make: Factory) -> Sequence[int]:
    """Levels that an estimator can keep."""
    return KEPT if make is Scheduler else LEVELS


def follow(make: Factory, samples: Iterator[Sample]) -> dict[int, Followed]:
    """Estimate each sample before it is observed."""
    levels = levels_of(make)
    estimator = make(levels)
    followed = {level: Followed([], []) for level in levels}
    normal = NormalDist(0, SIGMA)
    true = [BASE_NS * math.exp(normal.inv_cdf(q / WHOLE)) for q in levels]
    for sample in samples:
        for level, quantile, work in zip(
            levels, true, estimator.estimates, strict=True
        ):
            estimate = work * WHOLE // sample.clock
            followed[level].exceeded.append(sample.service > estimate)
            followed[level].ratio.append(estimate / (quantile * sample.factor))
        estimator.observe(sample.service * sample.clock // WHOLE)
    return followed


@dataclass(frozen=True)
class Row:
    """One estimator at one level: means over the seeds."""

    steady: float
    halved_unknown: float
    halved_known: float
    halved_late: float
    shrink: float | None
    """None: not within the 3000 samples that there are, for one seed at least."""
    bimodal: float
    blocks: float
    blocks_worst: float
    ratio: float
    ratio_spread: float
    """Standard deviation of the ratio."""


def mean(values: Sequence[float]) -> float:
    """The mean, with a short name."""
    return statistics.fmean(values)


def shrink(ratio: Sequence[float]) -> int | None:
    """Samples after the return until the estimate is within 10 % of the truth."""
    back = range(RESTORED, BIMODAL)
    return next((i - RESTORED for i in back if ratio[i] <= 1.1), None)


def worst(exceeded: Sequence[bool], length: int) -> int:
    """Most exceedances among ``length`` samples in a row."""
    count = most = sum(exceeded[:length])
    for i in range(length, len(exceeded)):
        count += exceeded[i] - exceeded[i - length]
        most = max(most, count)
    return most


def judge(make: Factory, seeds: int) -> dict[int, Row]:
    """Run one estimator over all the series."""
    numbers = range(1, seeds + 1)
    unknown = [follow(make, times(seed, None)) for seed in numbers]
    known = [follow(make, times(seed, 0)) for seed in numbers]
    late = [follow(make, times(seed, REPORT_DELAY)) for seed in numbers]
    correlated = [follow(make, blocks(seed)) for seed in numbers]
    rows = {}
    for level in levels_of(make):

        def halved(runs: list[dict[int, Followed]], level: int = level) -> float:
            return mean([sum(r[level].exceeded[HALVED : HALVED + AFTER]) for r in runs])

        steady = [r[level].ratio[SETTLED:HALVED] for r in unknown]
        returns = [shrink(r[level].ratio) for r in unknown]
        rows[level] = Row(
            mean([mean(r[level].exceeded[SETTLED:HALVED]) for r in unknown]),
            halved(unknown),
            halved(known),
            halved(late),
            None if None in returns else mean([n for n in returns if n is not None]),
            mean([mean(r[level].exceeded[BIMODAL + 500 :]) for r in unknown]),
            mean([mean(r[level].exceeded[SETTLED:]) for r in correlated]),
            mean([worst(r[level].exceeded[SETTLED:], AFTER) for r in correlated]),
            mean([mean(ratio) for ratio in steady]),
            mean([statistics.stdev(ratio) for ratio in steady]),
        )
    return rows


def costs_us(rounds: int = 15) -> dict[str, float]:
    """Microseconds for one observation with the kept levels, read.

    All estimators take their turn in every round; the best round of each counts,
    since a shared machine only ever makes it slower.
    """
    observed = [sample.service for sample in times(1, None)][:2000]
    best = dict.fromkeys(FACTORIES, float("inf"))
    for _ in range(rounds):
        for name, make in FACTORIES.items():
            estimator = make(KEPT)
            before = time.perf_counter_ns()
            for work in observed:
                estimator.observe(work)
                _low, _middle, _high = estimator.estimates
            spent = (time.perf_counter_ns() - before) / len(observed) / 1000
            best[name] = min(best[name], spent)
    return best


HEADER = (
    "estimator",
    "steady %",
    "halved: not told",
    "told",
    "told late",
    "samples to shrink",
    "bimodal %",
    "blocks %",
    "worst 300",
    "est/true",
    "us",
)


def table(level: int, rows: dict[str, dict[int, Row]], costs: dict[str, float]) -> str:
    """The rows of one level in Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- " * len(HEADER) + "|"]
    for name, by_level in rows.items():
        if level not in by_level:
            continue
        row = by_level[level]
        cells = (
            name,
            f"{100 * row.steady:.1f}",
            f"{row.halved_unknown:.0f}",
            f"{row.halved_known:.0f}",
            f"{row.halved_late:.0f}",
            "never" if row.shrink is None else f"{row.shrink:.0f}",
            f"{100 * row.bimodal:.1f}",
            f"{100 * row.blocks:.1f}",
            f"{row.blocks_worst:.0f}",
            f"{row.ratio:.2f} ± {row.ratio_spread:.3f}",
            f"{costs[name]:.2f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print the tables, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    costs = costs_us()
    rows = {name: judge(make, args.seeds) for name, make in FACTORIES.items()}
    if args.json:
        result = {
            name: {
                "cost_us": costs[name],
                **{str(level): vars(row) for level, row in by_level.items()},
            }
            for name, by_level in rows.items()
        }
        print(json.dumps({"seeds": args.seeds, "estimators": result}, indent=1))
        return
    for level in LEVELS:
        share = (WHOLE - level) / 10
        wanted = AFTER * (WHOLE - level) / WHOLE
        print(f"\nTarget: {share:g} % above the estimate, {wanted:g} of {AFTER}.\n")
        print(table(level, rows, costs))


if __name__ == "__main__":
    main()
