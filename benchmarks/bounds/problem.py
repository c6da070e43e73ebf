"""What a bound is about: frames, the ways to complete each, and the machine."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from edgepipe.scheduler.job import PERMILLE, Criticality, Rung, StreamSpec
from edgepipe.scheduler.scenario import ClockStep, Scenario
from edgepipe.scheduler.workload import TraceFrame

ROUNDING_NS = 2
"""The simulator rounds a service time down at most twice (batch, clock): a part is
taken to be that much shorter, so that rounding never makes a bound too low."""


class Worth(Enum):
    """What is counted."""

    ON_TIME = "on_time"
    """Frames."""
    UTILITY = "utility"
    """Weight times the value of the rung in thousandths."""

    def of(self, frame: TraceFrame, value_permille: int) -> int:
        """What completing the frame counts."""
        return 1 if self is Worth.ON_TIME else frame.weight * value_permille


class Clock:
    """The clock of one resource over time, in thousandths."""

    def __init__(self, steps: Iterable[ClockStep] = ()) -> None:
        ordered = sorted((step.at_ns, step.permille) for step in steps)
        self._since = [at_ns for at_ns, _ in ordered]
        self._permille = [PERMILLE, *(permille for _, permille in ordered)]

    def best(self, from_ns: int, to_ns: int) -> int:
        """The fastest clock at any moment of the range, its ends included."""
        first = bisect_right(self._since, from_ns)
        last = bisect_right(self._since, to_ns)
        if first and self._since[first - 1] == from_ns:
            first -= 1  # what ends at this very moment may still count
        return max(self._permille[first : last + 1])

    def shortest_ns(self, work_ns: int, from_ns: int, to_ns: int) -> int:
        """Least service time of so much work that begins in the range."""
        return work_ns * PERMILLE // self.best(from_ns, to_ns)


@dataclass(frozen=True, slots=True)
class Batching:
    """How jobs of one key run together.

    A batch takes its curve's share of the sum of its jobs alone. A job that is far
    cheaper than the others pulls their time down, so somebody might put one into a
    batch that is itself too late to count. Only members that are in time are counted
    here, and :meth:`least` allows for such helpers.
    """

    most: int
    """Jobs in one batch."""
    curve: tuple[int, ...]
    """As :attr:`edgepipe.scheduler.job.Step.batch_curve`."""
    cheapest: int
    """Least work of any job of the key."""

    def share(self, size: int) -> float:
        """Time of a batch over that of its jobs one after the other."""
        known = max(1, min(size, len(self.curve)))
        factor = self.curve[known - 1] if self.curve else PERMILLE
        return (factor + (size - known) * PERMILLE) / (size * PERMILLE)

    def least(self, members: int, work: float) -> float:
        """Least time of a batch, so many members of which ask for ``work`` in all."""
        return min(
            self.share(size) * (work + (size - members) * self.cheapest)
            for size in range(members, self.most + 1)
        )


class Part(NamedTuple):
    """One step of one way to complete a frame. Times are nanoseconds."""

    step: int
    resource: str
    key: str
    """Batch key; empty: runs alone."""
    ready_ns: int
    """Earliest start: the arrival and the least times of the steps before."""
    due_ns: int
    """Latest end, the least times of the steps after considered."""
    work_ns: int
    """Service time alone at full clock, less :data:`ROUNDING_NS`."""


class Choice(NamedTuple):
    """One way to complete a frame in time."""

    worth: int
    parts: tuple[Part, ...]


class Wanted(NamedTuple):
    """A frame that can be completed in time, were it alone."""

    release_ns: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Problem:
    """A trace with its machine, ready to be bounded."""

    frames: tuple[Wanted, ...]
    """In order of release; those that cannot be in time at all are left out."""
    slots: Mapping[str, int]
    clocks: Mapping[str, Clock]
    batching: Mapping[str, Batching]
    """By batch key; empty: every job runs alone."""
    captured: int
    """Frames of the trace."""
    total: int
    """Worth of all of them at their best."""

    @property
    def kind(self) -> str:
        """The ``bound_kind``."""
        return "batch-aware" if self.batching else "unbatched"

    def within(self, from_ns: int, to_ns: int) -> "Problem":
        """The frames released in this time; the bounds of all pieces add up to one.

        Any schedule, restricted to the frames of a piece, stays a schedule.
        """
        frames = tuple(f for f in self.frames if from_ns <= f.release_ns < to_ns)
        return Problem(
            frames, self.slots, self.clocks, self.batching, self.captured, self.total
        )


def problem(
    scenario: Scenario,
    frames: Sequence[TraceFrame],
    worth: Worth = Worth.ON_TIME,
    *,
    batched: bool = False,
    ladder: bool = False,
    only: Criticality | None = None,
) -> Problem:
    """Put a trace into the form that the bounds take.

    Args:
        scenario: Resources, streams and clocks.
        frames: Its trace.
        worth: What is counted.
        batched: Whether jobs may run in batches.
        ladder: Whether all rungs of a stream's ladder may be used, or the first only.
        only: Count frames of this criticality only; others need not be served at all.
    """
    specs = {camera.spec.id: camera.spec for camera in scenario.cameras}
    clocks = {
        resource.name: Clock(
            s for s in scenario.clock_steps if s.resource == resource.name
        )
        for resource in scenario.resources
    }
    batching = _batching(frames, specs, ladder=ladder) if batched else {}
    machine = _Machine(clocks, batching)
    if only is not None:
        frames = [f for f in frames if specs[f.stream].criticality is only]
    wanted = []
    for frame in sorted(frames, key=lambda frame: frame.arrival_ns):
        spec = specs[frame.stream]
        choices = tuple(_choices(frame, spec, worth, machine, ladder=ladder))
        if choices:
            wanted.append(Wanted(frame.arrival_ns, choices))
    return Problem(
        tuple(wanted),
        {resource.name: resource.slots for resource in scenario.resources},
        clocks,
        batching,
        len(frames),
        sum(worth.of(frame, PERMILLE) for frame in frames),
    )


class _Machine(NamedTuple):
    clocks: Mapping[str, Clock]
    batching: Mapping[str, Batching]


def _batching(
    frames: Iterable[TraceFrame], specs: Mapping[str, StreamSpec], *, ladder: bool
) -> dict[str, Batching]:
    """The most generous reading of the steps of each key."""
    found: dict[str, Batching] = {}
    for frame in frames:
        spec = specs[frame.stream]
        for costs in frame.cost_ns[: len(_rungs(spec, ladder=ladder))]:
            for step, cost_ns in zip(spec.steps, costs, strict=True):
                if step.batch_max > 1:
                    here = Batching(
                        step.batch_max, step.batch_curve, max(0, cost_ns - ROUNDING_NS)
                    )
                    other = found.get(step.batch_key, here)
                    found[step.batch_key] = _generous(here, other, step.batch_key)
    return found


def _generous(one: Batching, other: Batching, key: str) -> Batching:
    if one.curve != other.curve:
        raise ValueError(f"batch key {key!r} has two curves")
    return Batching(
        max(one.most, other.most), one.curve, min(one.cheapest, other.cheapest)
    )


def _rungs(spec: StreamSpec, *, ladder: bool) -> Sequence[Rung]:
    return spec.ladder if ladder else spec.ladder[:1]


def _choices(
    frame: TraceFrame,
    spec: StreamSpec,
    worth: Worth,
    machine: _Machine,
    *,
    ladder: bool,
) -> Iterable[Choice]:
    """The ways to complete a frame, leaving out those that can never be in time."""
    whole = range(len(spec.steps))
    tracked = [i for i in whole if spec.steps[i].runs_on_track_only]
    for number, rung in enumerate(_rungs(spec, ladder=ladder)):
        costs = frame.cost_ns[number]
        ways: list[tuple[Sequence[int], int]] = [(whole, rung.value_permille)]
        if rung.infer_every > 1:
            # How many frames may leave the network out is not asked: more freedom.
            ways.append((tracked, rung.track_only_value_permille))
        for steps, value in ways:
            parts = _parts(frame, spec, steps, costs, machine)
            if parts is not None:
                yield Choice(worth.of(frame, value), parts)


def _parts(
    frame: TraceFrame,
    spec: StreamSpec,
    steps: Sequence[int],
    costs: Sequence[int],
    machine: _Machine,
) -> tuple[Part, ...] | None:
    """The steps with the time each has; None if the frame cannot be in time."""
    works = [max(0, costs[i] - ROUNDING_NS) for i in steps]
    least = [
        _least_ns(frame, spec, i, work, machine)
        for i, work in zip(steps, works, strict=True)
    ]
    spare_ns = frame.deadline_ns - frame.arrival_ns - sum(least)
    if spare_ns < 0:
        return None
    parts, ready_ns = [], frame.arrival_ns
    for i, work, least_ns in zip(steps, works, least, strict=True):
        step = spec.steps[i]
        key = step.batch_key if step.batch_key in machine.batching else ""
        due_ns = ready_ns + least_ns + spare_ns
        parts.append(Part(i, step.resource, key, ready_ns, due_ns, work))
        ready_ns += least_ns
    return tuple(parts)


def _least_ns(
    frame: TraceFrame, spec: StreamSpec, index: int, work_ns: int, machine: _Machine
) -> int:
    """Least time of a step: at the best clock, in the luckiest batch."""
    step = spec.steps[index]
    batching = machine.batching.get(step.batch_key)
    if batching is not None:
        work_ns = int(batching.least(1, work_ns))
    clock = machine.clocks[step.resource]
    return clock.shortest_ns(work_ns, frame.arrival_ns, frame.deadline_ns)
