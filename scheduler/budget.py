"""How long a step will take, estimated from how long it took.

Three questions want three answers. A frame is given up only if it could not be in time
even on a good day, so shedding asks for a low quantile. A plan asks for a time that is
mostly kept. Whoever guards others against a long job asks for one that is hardly ever
exceeded.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence

from edgepipe.scheduler.job import PERMILLE
from edgepipe.scheduler.load import batch_permille

WINDOW = 99
"""Service times that an estimate rests on, the newest. With one more the ranks of the
quartiles and of 95 and 99 % are whole numbers, so that exactly the share that was asked
for lies above."""
WARM_UP = 2
"""The first so many are no guide and are left out: a network's first runs are up to
eight times slower, and a video sink opens its encoder on the first frame."""
LEAST_SAMPLES = 5
"""No estimate before so many more."""
SHED_PERMILLE, PLAN_PERMILLE, GUARD_PERMILLE = 250, 750, 950
ONE_OUT = 8
"""From so many samples on the longest is left out of every estimate."""
OUTLIERS = 3
"""The worst case is taken from what is left without so many of a full window."""
RUN = 8
"""So many times in a row above the upper or below the lower quartile happen once in
30,000 by chance: something has changed, and what was measured before is forgotten."""
FAR = 3
"""After so many times in a row a quarter above the upper quartile plans are made with
the least of them, at once."""
MARGIN_PERMILLE = 1100
"""A profile is believed with ten per cent added: it was taken on another day."""


def _rank(permille: int, n: int) -> int:
    """Index into ``n`` ascending samples that the next one exceeds so seldom.

    Never the longest of eight or more: one hiccup is no quantile, and a job that is
    held back on its account is not measured again.
    """
    most = n if n < ONE_OUT else n - 1
    return min(most, -(-permille * (n + 1) // PERMILLE)) - 1


_RANKS: tuple[tuple[int, ...], ...] = tuple(
    tuple(_rank(share, n) for share in (SHED_PERMILLE, PLAN_PERMILLE, GUARD_PERMILLE))
    for n in range(1, WINDOW + 1)
)
"""By one less than the number of samples."""


class ServiceTimes:
    """Quantiles of the last service times of one step, one rung and one batch size.

    Times are kept as work: nanoseconds at full clock. ``shed_ns``, ``plan_ns`` and
    ``guard_ns`` are nanoseconds at the present clock; 0 while nothing can be said.
    """

    __slots__ = (
        "_clock",
        "_edge",
        "_far",
        "_guard",
        "_least_far",
        "_left_out",
        "_plan",
        "_recent",
        "_run",
        "_shed",
        "_sorted",
        "doomed",
        "guard_ns",
        "plan_ns",
        "shed_ns",
    )

    def __init__(self, expected_ns: int = 0, clock_permille: int = PERMILLE) -> None:
        """``expected_ns``: what a profile says, at full clock; 0: nothing."""
        self._recent: deque[int] = deque()
        self._sorted: list[int] = []
        self._left_out = 0
        self._run = 0
        """Times in a row above the upper quartile (positive) or below the lower."""
        self._edge = 0
        """That quartile when the run began."""
        self._far = self._least_far = 0
        """Times in a row a quarter longer than that, and the least of them."""
        self._clock = clock_permille
        # A profile is no reason to give a frame up: the machine may be faster.
        self._shed = expected_ns // 2
        self._plan = self._guard = expected_ns * MARGIN_PERMILLE // PERMILLE
        self.doomed = 0
        """Frames given up on the strength of this estimate since it was last fed."""
        self._rescale()

    @property
    def measured(self) -> bool:
        """Whether the estimate rests on measurements."""
        return len(self._sorted) >= LEAST_SAMPLES

    @property
    def mean_ns(self) -> int:
        """Mean of the times at the present clock; the profile's while unmeasured."""
        ordered = self._sorted
        if len(ordered) < LEAST_SAMPLES:
            return self.plan_ns
        return sum(ordered) * PERMILLE // (len(ordered) * self._clock)

    def expect(self, work: int) -> None:
        """Take ``work`` (ns at full clock) for the profile until measured."""
        if not self.measured:
            self._shed, self._plan, self._guard = work // 2, work, work
            self._rescale()

    @property
    def worst_ns(self) -> int:
        """Ten per cent more than all but the rarest times, at the present clock."""
        ordered = self._sorted
        if len(ordered) < ONE_OUT:
            return self.guard_ns
        out = 1 + (OUTLIERS - 1) * len(ordered) // WINDOW
        return max(self.guard_ns, ordered[-1 - out] * MARGIN_PERMILLE // self._clock)

    @property
    def ordered(self) -> Sequence[int]:
        """The times that the estimates rest on, as work, ascending."""
        return self._sorted

    @property
    def clock_permille(self) -> int:
        """The present clock in thousandths of full clock."""
        return self._clock

    def spread(self, count: int) -> list[int]:
        """So many of the times, evenly spread over all, at the present clock."""
        ordered = self._sorted
        if len(ordered) < LEAST_SAMPLES:
            return [self.plan_ns] * count
        return [
            self.scaled(ordered[(2 * i + 1) * len(ordered) // (2 * count)])
            for i in range(count)
        ]

    def exceeding(self, service_ns: int) -> int:
        """Thousandths of the times that were longer than this."""
        n = len(self._sorted)
        longer = n - bisect_right(self._sorted, service_ns * self._clock // PERMILLE)
        return PERMILLE * longer // max(1, n)

    def scaled(self, work: int) -> int:
        """How long so much work takes at the present clock, ns."""
        return work * PERMILLE // self._clock

    def observe(self, service_ns: int) -> None:
        """Take one measured service time in."""
        self.doomed = 0
        if self._left_out < WARM_UP:
            self._left_out += 1
            return
        clock = self._clock
        work = service_ns if clock == PERMILLE else service_ns * clock // PERMILLE
        recent, ordered = self._recent, self._sorted
        run, n = self._run, len(ordered)
        if n < LEAST_SAMPLES:
            pass  # nothing to compare with
        elif run > 0 and work > self._edge:
            self._run = run + 1
        elif run < 0 and work < self._edge:
            self._run = run - 1
        elif work > self._plan:
            self._run, self._edge = 1, self._plan
        elif work < self._shed:
            self._run, self._edge = -1, self._shed
        else:
            self._run = 0
        if self._run > 0 and 4 * work > 5 * self._edge:
            self._least_far = min(work, self._least_far) if self._far else work
            self._far += 1
        else:
            self._far = 0
        if n > RUN and not -RUN < self._run < RUN:
            kept = list(recent)[1 - RUN :]
            recent.clear()
            recent.extend(kept)
            ordered[:] = sorted(kept)
            self._run, n = 0, RUN - 1
        elif n == WINDOW:
            del ordered[bisect_left(ordered, recent.popleft())]
            n -= 1
        recent.append(work)
        insort(ordered, work)
        if n >= LEAST_SAMPLES - 1:
            shed, plan, guard = _RANKS[n]
            self._shed, self._plan = ordered[shed], ordered[plan]
            self._guard = ordered[guard]
            if clock == PERMILLE:
                self.shed_ns, self.plan_ns = self._shed, self._plan
                self.guard_ns = self._guard
            else:
                self._rescale()
        if self._far >= FAR:
            self._lift()

    def _lift(self) -> None:
        """Plan with what was just seen several times, before the window knows it."""
        least_ns = self.scaled(self._least_far)
        self.plan_ns = max(self.plan_ns, least_ns)
        self.guard_ns = max(self.guard_ns, self.plan_ns)

    def set_clock(self, permille: int) -> None:
        """The resource runs at so many thousandths of full clock from now on."""
        self._clock = permille
        self._far = 0
        self._rescale()

    def _rescale(self) -> None:
        clock = self._clock
        self.shed_ns = self._shed * PERMILLE // clock
        self.plan_ns = self._plan * PERMILLE // clock
        self.guard_ns = self._guard * PERMILLE // clock


class StepCost:
    """What one step costs on one rung, alone and in batches.

    Streams that share a model share this object: each learns from all of them.
    """

    __slots__ = ("_by_size", "_curve", "alone")

    def __init__(
        self, expected_ns: int, curve: tuple[int, ...], clock_permille: int = PERMILLE
    ) -> None:
        """``expected_ns``: of one job, at full clock; ``curve``: see ``Step``."""
        self.alone = ServiceTimes(expected_ns, clock_permille)
        self._curve = curve
        self._by_size: dict[int, ServiceTimes] = {1: self.alone}

    def observe(self, size: int, service_ns: int) -> None:
        """A batch of ``size`` jobs took so long as a whole."""
        if size == 1:
            self.alone.observe(service_ns)
            return
        times = self._by_size.get(size)
        if times is None:
            times = self._by_size[size] = ServiceTimes()
            times.set_clock(self.alone.clock_permille)
        times.observe(service_ns)
        # One that only ever runs in company is alive all the same.
        self.alone.doomed = 0

    def set_clock(self, permille: int) -> None:
        """The resource runs at so many thousandths of full clock from now on."""
        for times in self._by_size.values():
            times.set_clock(permille)

    def plan_ns(self, size: int) -> int:
        """Time to plan with for a batch of ``size``."""
        if size == 1:
            return self.alone.plan_ns
        times = self._by_size.get(size)
        if times is not None and times.measured:
            return times.plan_ns
        return self.alone.plan_ns * self.factor(size) // PERMILLE

    def guard_ns(self, size: int) -> int:
        """Time that a batch of ``size`` hardly ever exceeds."""
        times = self._by_size.get(size)
        if times is not None and times.measured:
            return times.guard_ns
        return self.alone.guard_ns * self.factor(size) // PERMILLE

    def expect(self, base: "StepCost", scale_permille: int) -> None:
        """While unmeasured, expect so many thousandths of what ``base`` costs."""
        mean = base.alone.mean_ns * base.alone.clock_permille // PERMILLE
        self.alone.expect(mean * scale_permille // PERMILLE)

    def factor(self, size: int) -> int:
        """Cost of a batch in thousandths of one job: measured, or as profiled."""
        times = self._by_size.get(size)
        if times is not None and times.measured and self.alone.measured:
            return times.mean_ns * PERMILLE // max(1, self.alone.mean_ns)
        return batch_permille(self._curve, size)
