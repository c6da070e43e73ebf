"""What a schedule achieved, from the records of its frames, live or simulated.

Shares are taken of the frames *captured*, never of those processed: what was late,
dropped or failed has missed. A percentile stands beside the share it belongs to, since
whoever drops enough frames can show any latency. Frames of the warm-up are left out.
The formulas are in :mod:`edgepipe.telemetry.scheduling_formulas` and
:mod:`edgepipe.telemetry.stats`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry import scheduling_formulas as formulas
from edgepipe.telemetry import stats
from edgepipe.telemetry.frame_columns import (
    ResourceWork,
    StreamFrames,
    by_resource,
    by_stream,
)
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.stats import Distribution

FULL_VALUE_PERMILLE = 1000
"""What a frame is worth whose variant has no value of its own."""

_NOTHING_DELIVERED = "no frame was delivered"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How many frames were captured, and what became of them."""

    captured: int
    on_time: int
    late: int
    dropped: Mapping[str, int]
    """By reason."""
    failed: Mapping[str, int]
    """By reason."""

    @property
    def on_time_share(self) -> float | None:
        """Of the frames captured; None when there were none."""
        return stats.on_time_share(self.captured, self.on_time)


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """One stream. Times are nanoseconds."""

    outcomes: Outcomes
    utility: float | None
    """Worth of the frames on time by the worth of all, each at its full value."""
    latency: Distribution
    """Capture to delivery of the delivered frames."""
    peak_age: Distribution
    """Age of the newest result just before each next one, and at the end."""
    interval_error: Distribution
    """Distance of each gap between deliveries from the period: p99 is the jitter."""
    longest_miss_run: int
    """Most frames in a row that were not on time."""
    contract_violations: int | None
    """Windows in which the (m,k) promise was broken; None without a promise."""


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """The streams of one criticality, or all of them. Times are nanoseconds."""

    streams: tuple[str, ...]
    outcomes: Outcomes
    goodput_fps: float | None
    """Frames on time by second."""
    utility: float | None
    """As of a stream, each frame with its stream's weight."""
    latency: Distribution
    peak_age: Distribution
    longest_miss_run: int
    """The longest of any stream."""
    contract_violations: int
    """Over all streams that were promised something."""
    fairness: float | None
    """Jain's index of the streams' shares on time; None when nothing was on time."""
    recovery_s: tuple[int | None, ...]
    """For each event, seconds to the first of three good seconds; None: never."""


@dataclass(frozen=True, slots=True)
class SchedulingMetrics:
    """Everything that is said about one schedule."""

    duration_ns: int
    all: GroupMetrics
    by_criticality: Mapping[str, GroupMetrics]
    by_stream: Mapping[str, StreamMetrics]
    by_resource: Mapping[str, ResourceWork]
    response_ns: tuple[int | None, ...]
    """For each event, the longest time until a stream's (m,k) promise was kept, over
    the streams with a promise and frames after it; None: not all did, or there are
    none."""
    moves_per_minute: float | None
    """Moves on the ladder, on average."""
    most_moves_in_a_minute: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What was promised for the streams, by stream id; streams left out get defaults.

    Raises:
        ValueError: A promise is not 1 <= m <= k.
    """

    criticality: Mapping[str, str] = field(default_factory=dict[str, str])
    """Streams left out belong to no criticality."""
    weights: Mapping[str, int] = field(default_factory=dict[str, int])
    """Worth of a frame against those of other streams; 1 by default."""
    values_permille: Mapping[tuple[str, str], int] = field(
        default_factory=dict[tuple[str, str], int]
    )
    """By stream and variant: what the variant's result is worth; 1000 by default."""
    contracts: Mapping[str, tuple[int, int]] = field(
        default_factory=dict[str, tuple[int, int]]
    )
    """(m, k): of any k frames in a row m are on time; nothing by default."""
    periods_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    """Time between frames; without it there is no jitter of the intervals."""

    def __post_init__(self) -> None:
        """Refuse promises that mean nothing."""
        for stream, (m, k) in self.contracts.items():
            if not 1 <= m <= k:
                raise ValueError(
                    f"contract of {stream!r}: needs 1 <= m <= k, got ({m}, {k})"
                )


def measure(
    records: Sequence[FrameRecord],
    terms: Terms | None = None,
    *,
    from_ns: int | None = None,
    until_ns: int | None = None,
    events_ns: Sequence[int] = (),
    moves_ns: Sequence[int] = (),
    recovered_permille: int = formulas.RECOVERED_PERMILLE,
) -> SchedulingMetrics:
    """Work out all metrics from the records, which may come in any order.

    Args:
        records: Every frame that left, once.
        terms: What was promised.
        from_ns: When the measured time began; by default the first capture.
        until_ns: When it ended; by default when the last frame left.
        events_ns: Moments after which recovery and response are looked for.
        moves_ns: Moments at which a stream was moved on its ladder.
        recovered_permille: Share on time of a second that counts as recovered; less
            than 990 where no schedule could reach that.
    """
    measured = [record for record in records if not record.warm_up]
    if from_ns is None:
        from_ns = min((record.capture_ns for record in measured), default=0)
    if until_ns is None:
        until_ns = max((record.done_ns for record in measured), default=from_ns)
    run = _Run(
        by_stream(measured),
        terms or Terms(),
        from_ns,
        until_ns,
        tuple(events_ns),
        recovered_permille,
    )
    parts = {name: run.stream(name) for name in run.frames}
    return SchedulingMetrics(
        duration_ns=run.duration_ns,
        all=run.group(parts),
        by_criticality={
            criticality: run.group({name: parts[name] for name in names})
            for criticality, names in run.criticalities().items()
        },
        by_stream=parts,
        by_resource=by_resource(measured),
        response_ns=tuple(run.response_ns(event_ns) for event_ns in events_ns),
        moves_per_minute=formulas.moves_per_minute(len(moves_ns), run.duration_ns),
        most_moves_in_a_minute=formulas.most_moves_in_a_minute(moves_ns),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """What is measured, in columns."""

    frames: Mapping[str, StreamFrames]
    terms: Terms
    from_ns: int
    until_ns: int
    events_ns: tuple[int, ...]
    recovered_permille: int

    @property
    def duration_ns(self) -> int:
        """How long it was measured."""
        return self.until_ns - self.from_ns

    def stream(self, name: str) -> StreamMetrics:
        """One stream alone."""
        frames = self.frames[name]
        contract = self.terms.contracts.get(name)
        return StreamMetrics(
            outcomes=_outcomes(frames.fates),
            utility=self._utility([name]),
            latency=self._latency([name]),
            peak_age=self._peak_age([name]),
            interval_error=_interval_error(frames, self.terms.periods_ns.get(name, 0)),
            longest_miss_run=formulas.longest_miss_run(frames.on_time),
            contract_violations=formulas.window_violations(frames.on_time, *contract)
            if contract
            else None,
        )

    def group(self, parts: Mapping[str, StreamMetrics]) -> GroupMetrics:
        """These streams together."""
        fates: Counter[tuple[str, str]] = Counter()
        for name in parts:
            fates.update(self.frames[name].fates)
        outcomes = _outcomes(fates)
        streams = parts.values()
        shares = [part.outcomes.on_time_share for part in streams]
        return GroupMetrics(
            streams=tuple(parts),
            outcomes=outcomes,
            goodput_fps=formulas.per_second(outcomes.on_time, self.duration_ns),
            utility=self._utility(parts),
            latency=self._latency(parts),
            peak_age=self._peak_age(parts),
            longest_miss_run=max((s.longest_miss_run for s in streams), default=0),
            contract_violations=sum(s.contract_violations or 0 for s in streams),
            fairness=formulas.jain([share for share in shares if share is not None]),
            recovery_s=tuple(self._recovery_s(parts, each) for each in self.events_ns),
        )

    def criticalities(self) -> dict[str, list[str]]:
        """The streams of each criticality, by its name."""
        members: dict[str, list[str]] = {}
        for name in self.frames:
            if (criticality := self.terms.criticality.get(name)) is not None:
                members.setdefault(criticality, []).append(name)
        return {criticality: members[criticality] for criticality in sorted(members)}

    def response_ns(self, event_ns: int) -> int | None:
        """The longest time until a stream's promise was kept; None: one never was."""
        responses = [
            formulas.conforming_after(each.capture_ns, each.on_time, m, k, event_ns)
            for name, (m, k) in self.terms.contracts.items()
            if (each := self.frames.get(name)) is not None
            and (each.capture_ns >= event_ns).any()
        ]
        known = [response for response in responses if response is not None]
        return max(known) if known and len(known) == len(responses) else None

    def _utility(self, names: Iterable[str]) -> float | None:
        # Whole numbers to the end: the figure does not depend on the order.
        achieved = possible = 0
        for name in names:
            frames = self.frames[name]
            weight = self.terms.weights.get(name, 1)
            possible += weight * frames.fates.total() * FULL_VALUE_PERMILLE
            for variant, n in frames.variants.items():
                key = (name, variant)
                value = self.terms.values_permille.get(key, FULL_VALUE_PERMILLE)
                achieved += weight * n * value
        return achieved / possible if possible else None

    def _latency(self, names: Iterable[str]) -> Distribution:
        frames = [self.frames[name] for name in names]
        return _distribution(
            [(each.done_ns - each.capture_ns)[each.delivered] for each in frames],
            _NOTHING_DELIVERED,
        )

    def _peak_age(self, names: Iterable[str]) -> Distribution:
        frames = [self.frames[name] for name in names]
        return _distribution(
            [
                formulas.peak_ages(
                    each.capture_ns[each.delivered],
                    each.done_ns[each.delivered],
                    self.until_ns,
                )
                for each in frames
            ],
            "no result was replaced by a newer one",
        )

    def _recovery_s(self, names: Iterable[str], event_ns: int) -> int | None:
        frames = [self.frames[name] for name in names]
        return formulas.recovery_s(
            _joined([each.capture_ns for each in frames], np.int64),
            _joined([each.on_time for each in frames], np.bool_),
            event_ns,
            self.until_ns,
            self.recovered_permille,
        )


def _outcomes(fates: Counter[tuple[str, str]]) -> Outcomes:
    def by_reason(fate: str) -> dict[str, int]:
        return {why: n for (found, why), n in sorted(fates.items()) if found == fate}

    return Outcomes(
        captured=fates.total(),
        on_time=sum(by_reason("completed").values()),
        late=sum(by_reason("late").values()),
        dropped=by_reason("dropped"),
        failed=by_reason("failed"),
    )


def _interval_error(frames: StreamFrames, period_ns: int) -> Distribution:
    if not period_ns:
        return _distribution([], "the stream has no period")
    errors = formulas.interval_errors(frames.done_ns[frames.delivered], period_ns)
    return _distribution([errors], "fewer than two frames were delivered")


def _distribution(parts: Sequence[formulas.Times], nothing: str) -> Distribution:
    values = _joined(parts, np.int64)
    return stats.distribution_of(values, len(values), nothing)


def _joined(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts])
