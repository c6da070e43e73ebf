"""The energy of one channel between any two moments, from its readings as they come."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from edgepipe.telemetry.energy import Energy, Method
from edgepipe.telemetry.energy_error import FEWEST_PHASES, error_pct, phases_seen
from edgepipe.telemetry.energy_integral import (
    GAP_PERIODS,
    SHORTEST_GAP_NS,
    Integral,
)
from edgepipe.telemetry.energy_part import Part
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope

LATE_READINGS = 1024
"""A mark may be set this many readings after its time."""
MOST_MARKS = 4096
"""At this bound the oldest mark is forgotten."""

LEAST_COVERAGE = 0.9
SHORTEST_GPU_S = 5.0
"""NVIDIA's boards average power over a second or sample a part of it."""
SHORTEST_UNKNOWN_S = 20.0
"""Five time constants of the slowest filter seen, and a little more."""


class EnergyMeter:
    """Integrates one channel of power or energy; memory is bounded for ever.

    Windows lie between marks. A mark may lie between two readings, in the future, or a
    little in the past. Owned by one thread at a time.

    Args:
        channel: What is read.
        period_ns: How often it is meant to be read; learnt from the readings when None.

    Raises:
        ValueError: The channel is of another kind.
    """

    def __init__(self, channel: Channel, period_ns: int | None = None) -> None:
        if channel.kind not in (Kind.POWER, Kind.ENERGY):
            raise ValueError(f"{channel.key} has no energy: it is not of that kind")
        self.channel = channel
        self._integral = Integral(channel.kind, period_ns)
        self._recent: deque[Reading] = deque()
        self._live = Integral(channel.kind, period_ns)
        self._marks: list[int] = []
        self._why = "no reading"

    @property
    def joules(self) -> float | None:
        """All that was covered so far, uncorrected; None before two readings."""
        return self._live.total_j if self._live.covered_ns else None

    @property
    def covered_s(self) -> float:
        """The time that ``joules`` rests on."""
        return self._live.covered_ns / 1e9

    def add(self, reading: Reading) -> None:
        """Take in the next reading of the channel, in the order of their times."""
        self._live.add(reading)
        self._recent.append(reading)
        if reading.value is None:
            self._why = reading.reason or "no reading"
        if len(self._recent) > LATE_READINGS:
            self._integral.add(self._recent.popleft())

    def mark(self, at_ns: int) -> None:
        """Let a window begin or end at this moment; twice is the same as once.

        A moment that :data:`LATE_READINGS` readings have passed is not marked: windows
        with it have no figure, and say so.
        """
        reached_ns = self._integral.reached_ns
        if at_ns in self._marks or (reached_ns is not None and at_ns <= reached_ns):
            return
        insort(self._marks, at_ns)
        self._integral.mark(at_ns)
        if len(self._marks) > MOST_MARKS:
            self.unmark(self._marks[0])

    def unmark(self, at_ns: int) -> None:
        """Forget a mark, which frees its memory."""
        here = bisect_left(self._marks, at_ns)
        if here < len(self._marks) and self._marks[here] == at_ns:
            del self._marks[here]
            self._integral.unmark(at_ns)

    def between(
        self, start_ns: int, end_ns: int, frame_rates: Sequence[float] = ()
    ) -> Energy:
        """The energy between two marks.

        Args:
            start_ns: A marked moment.
            end_ns: A later one.
            frame_rates: What the load may come with, in frames a second, for the
                estimate of the error.

        Raises:
            ValueError: The window is empty.
        """
        if end_ns <= start_ns:
            raise ValueError(f"a window from {start_ns} to {end_ns} ns is empty")
        for at_ns in (start_ns, end_ns):
            if at_ns not in self._marks:
                return self._nothing(start_ns, end_ns, _UNMARKED)
        part = self._part(start_ns, end_ns)
        why = self._lacking(part)
        if why:
            return self._nothing(start_ns, end_ns, why, part)
        return self._energy(part, frame_rates)

    def _part(self, start_ns: int, end_ns: int) -> Part:
        integral = self._integral.copy()
        for reading in self._recent:
            integral.add(reading)
        integral.close(end_ns)
        inside = [p for p in integral.parts if start_ns <= p.start_ns < end_ns]
        return reduce(Part.joined, inside)

    def _lacking(self, part: Part) -> str:
        if not part.samples and not part.covered_ns:
            return self._why
        if not part.covered_ns:
            return "no two readings of the window follow each other"
        if self.channel.kind is Kind.ENERGY and not part.joules:
            return "the counter did not move in the window"
        return ""

    def _energy(self, part: Part, frame_rates: Sequence[float]) -> Energy:
        empty = self._nothing(part.start_ns, part.end_ns, "", part)
        correction_j = (empty.tau_s or 0.0) * part.rise_w
        joules = part.joules + correction_j
        mean_w = joules / (part.covered_ns / 1e9)
        return replace(
            empty,
            joules=joules,
            mean_w=mean_w,
            correction_j=correction_j,
            error_pct=error_pct(self.channel, part, mean_w, frame_rates),
            low=tuple(_doubts(self.channel, part, frame_rates)),
        )

    def _nothing(
        self, start_ns: int, end_ns: int, why: str, part: Part | None = None
    ) -> Energy:
        seen = part or Part(start_ns, end_ns)
        counter = self.channel.kind is Kind.ENERGY
        return Energy(
            channels=(self.channel,),
            scope=self.channel.scope,
            method=Method.COUNTER if counter else Method.TRAPEZOID,
            start_ns=start_ns,
            end_ns=end_ns,
            joules=None,
            mean_w=None,
            coverage=seen.covered_ns / (end_ns - start_ns),
            samples=seen.samples,
            rate_hz=_rate_hz(seen),
            longest_gap_s=seen.longest_gap_ns / 1e9,
            tau_s=0.0 if counter else self.channel.tau_s,
            correction_j=0.0,
            error_pct=None,
            reason=why,
        )


_UNMARKED = (
    "an edge of the window is not marked: it never was, it came too late, or it is "
    f"more than {MOST_MARKS} marks ago"
)


def _rate_hz(part: Part) -> float | None:
    return part.samples * 1e9 / part.covered_ns if part.covered_ns else None


def _doubts(
    channel: Channel, part: Part, frame_rates: Sequence[float]
) -> Iterator[str]:
    """Why a figure should not be relied on."""
    window_s = (part.end_ns - part.start_ns) / 1e9
    coverage = part.covered_ns / (part.end_ns - part.start_ns)
    if coverage < LEAST_COVERAGE:
        yield f"only {100 * coverage:.3g} % of the window was measured"
    limit_ns = max(
        SHORTEST_GAP_NS, GAP_PERIODS * part.covered_ns / max(1, part.samples)
    )
    if part.longest_gap_ns > limit_ns:
        yield f"no reading for {part.longest_gap_ns / 1e9:.3g} s"
    if part.doubtful:
        yield f"the sensor doubts {part.doubtful} of {part.samples} readings"
    if part.resets:
        yield f"the counter went back {part.resets} times"
    if channel.scope is Scope.GPU_BOARD and window_s < SHORTEST_GPU_S:
        yield f"{window_s:.3g} s is short for an average of a GPU's driver: 5 s"
    if channel.kind is Kind.POWER:
        yield from _filter_doubts(channel, window_s)
        yield from _lock_doubts(part, frame_rates)


def _filter_doubts(channel: Channel, window_s: float) -> Iterator[str]:
    if channel.tau_s is None and window_s < SHORTEST_UNKNOWN_S:
        yield f"the sensor's filter is not known: {window_s:.3g} s is less than 20 s"


def _lock_doubts(part: Part, frame_rates: Sequence[float]) -> Iterator[str]:
    for frame_hz in frame_rates:
        seen = phases_seen(part, frame_hz)
        if seen < FEWEST_PHASES:
            yield (
                f"readings fall on {seen} moment(s) of each frame at {frame_hz:g} "
                "frames a second"
            )
