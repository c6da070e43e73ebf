"""The integer optimum of a short trace by OR-Tools' CP-SAT, or a bound close to it.

Every part of a choice that is taken is an interval on its resource, after the part
before it and inside its window. Durations are rounded down and windows outwards to the
solver's unit, and a part takes its time at the best clock of its window: what is found
is an upper bound even if time runs out, since the solver's own bound is used.

With batches each batch is led by its first member in order of release: the others
start and end with it, and its time is its size's share of the sum of its members
alone. That is meant for a dozen frames; it is what the other batch-aware bounds are
tested against.

OR-Tools is in no environment of this project: it brings pandas and another protobuf.
Give it one of its own: ``pip install ortools scipy``, and ``src`` and ``benchmarks`` on
PYTHONPATH.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from bounds.problem import Batching, Clock, Part, Problem, Wanted
from edgepipe.scheduler.job import PERMILLE


def _import() -> Any:
    """CP-SAT, or None: the other bounds do not need it."""
    try:
        return import_module("ortools.sat.python.cp_model")
    except ImportError:
        return None


cp_model: Any = _import()
Variable: TypeAlias = Any
"""A whole number or a truth value of the model."""

WHOLE = 10**6
"""Shares of batches are whole millionths."""


class Exact(NamedTuple):
    """What the solver knows when it stops."""

    bound: int
    """No schedule is worth more."""
    value: int
    """Worth of the best schedule that it found."""


def available() -> bool:
    """Whether OR-Tools is installed."""
    return cp_model is not None


def exact_bound(
    problem: Problem,
    piece_ns: int = 10**9,
    effort: float = 5.0,
    unit_ns: int = 1000,
) -> Exact:
    """Solve the trace in pieces of time, each alone, and add up.

    Args:
        problem: Frames and machine.
        piece_ns: Length of a piece.
        effort: For a piece, about seconds. What is not solved then is still bounded.
        unit_ns: The solver's unit of time.
    """
    if not problem.frames:
        return Exact(0, 0)
    first = problem.frames[0].release_ns
    last = problem.frames[-1].release_ns
    pieces = [
        _solve(problem.within(begin, begin + piece_ns), effort, unit_ns)
        for begin in range(first, last + 1, piece_ns)
    ]
    return Exact(sum(p.bound for p in pieces), sum(p.value for p in pieces))


@dataclass(frozen=True, eq=False)
class _Interval:
    """A part in the model."""

    start: Variable
    end: Variable
    present: Variable
    part: Part
    """That of the first choice that has the step."""


def _solve(problem: Problem, effort: float, unit_ns: int) -> Exact:
    """One piece, as a whole."""
    model = _Model(problem, unit_ns)
    solver = cp_model.CpSolver()
    # The solver's own measure of effort, and one worker: the same answer every time.
    solver.parameters.max_deterministic_time = effort
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"no schedule found: {solver.status_name(status)}")
    # Both are whole numbers that the solver hands out as floats.
    return Exact(int(solver.best_objective_bound + 1e-3), round(solver.objective_value))


class _Model:
    """The model of one piece."""

    def __init__(self, problem: Problem, unit_ns: int) -> None:
        self.model = cp_model.CpModel()
        self._problem = problem
        self._unit_ns = unit_ns
        self._alone: dict[str, list[Variable]] = defaultdict(list)
        together: dict[str, list[_Interval]] = defaultdict(list)
        worth = []
        for frame in problem.frames:
            taken = [self.model.new_bool_var("") for _ in frame.choices]
            self.model.add_at_most_one(taken)
            worth += [
                choice.worth * literal
                for choice, literal in zip(frame.choices, taken, strict=True)
            ]
            for interval in self._frame(frame, taken):
                together[interval.part.key].append(interval)
        for key, intervals in together.items():
            _Batches(self, problem.batching[key]).add(intervals)
        for resource, intervals in self._alone.items():
            self._share(intervals, problem.slots[resource])
        self.model.maximize(sum(worth))

    def _share(self, intervals: list[Variable], slots: int) -> None:
        if slots == 1:
            self.model.add_no_overlap(intervals)
        else:
            self.model.add_cumulative(intervals, [1] * len(intervals), slots)

    def _frame(self, frame: Wanted, taken: Sequence[Variable]) -> list[_Interval]:
        """The intervals of one frame; returns those that may run in a batch."""
        ways: dict[int, list[tuple[Part, Variable]]] = defaultdict(list)
        for choice, literal in zip(frame.choices, taken, strict=True):
            for part in choice.parts:
                ways[part.step].append((part, literal))
        steps = {step: self._step(way, taken) for step, way in ways.items()}
        for choice, literal in zip(frame.choices, taken, strict=True):
            for before, after in pairwise(choice.parts):
                self.model.add(
                    steps[before.step].end <= steps[after.step].start
                ).only_enforce_if(literal)
        return [interval for interval in steps.values() if interval.part.key]

    def _step(
        self,
        ways: Sequence[tuple[Part, Variable]],
        taken: Sequence[Variable],
    ) -> _Interval:
        """One step of a frame, in whichever way it is done."""
        model, unit = self.model, self._unit_ns
        ready = min(part.ready_ns for part, _ in ways) // unit
        due = -(-max(part.due_ns for part, _ in ways) // unit)
        start, end = (
            model.new_int_var(ready, due, ""),
            model.new_int_var(ready, due, ""),
        )
        present = model.new_bool_var("")
        model.add(present == sum(literal for _, literal in ways))
        for part, literal in ways:
            model.add(start >= part.ready_ns // unit).only_enforce_if(literal)
            model.add(end <= -(-part.due_ns // unit)).only_enforce_if(literal)
        part = ways[0][0]
        if part.key:
            if len(taken) > 1:
                raise ValueError("batches of frames with several choices")
            return _Interval(start, end, present, part)
        size: Variable = self.duration(part)
        if len(ways) > 1:
            size = model.new_int_var(0, max(self.duration(p) for p, _ in ways), "")
            model.add(size == sum(self.duration(p) * literal for p, literal in ways))
        interval = model.new_optional_interval_var(start, size, end, present, "")
        self._alone[part.resource].append(interval)
        return _Interval(start, end, present, part)

    def duration(self, part: Part) -> int:
        """Least time of the part alone, in units."""
        shortest_ns = self.clock(part).shortest_ns(
            part.work_ns, part.ready_ns, part.due_ns
        )
        return shortest_ns // self._unit_ns

    def clock(self, part: Part) -> Clock:
        """That of the part's resource."""
        return self._problem.clocks[part.resource]

    def helper(self, part: Part, batching: Batching) -> int:
        """Least time of any job of the key, in units."""
        fastest = self.clock(part).best(0, 1 << 62)
        return batching.cheapest * PERMILLE // fastest // self._unit_ns

    def occupy(self, resource: str, interval: Variable) -> None:
        """Let a batch keep a slot."""
        self._alone[resource].append(interval)


class _Batches:
    """The batches of one key."""

    def __init__(self, owner: _Model, batching: Batching) -> None:
        self._owner = owner
        self._model = owner.model
        self._batching = batching

    def add(self, intervals: Sequence[_Interval]) -> None:
        """Put each part that is present into the batch of one leader."""
        joins: list[list[Variable]] = [[] for _ in intervals]
        for number, leader in enumerate(intervals):
            followers = [
                other
                for other in range(number, len(intervals))
                if other == number or self._fit(leader.part, intervals[other].part)
            ]
            literals = {other: self._model.new_bool_var("") for other in followers}
            for other, literal in literals.items():
                joins[other].append(literal)
            self._lead(leader, {intervals[o]: lit for o, lit in literals.items()})
        for interval, literals_of in zip(intervals, joins, strict=True):
            self._model.add(sum(literals_of) == interval.present)

    def _fit(self, one: Part, other: Part) -> bool:
        """Whether two parts could be in time in one batch."""
        least = self._batching.least(2, one.work_ns + other.work_ns)
        clock = self._owner.clock(one)
        from_ns = max(one.ready_ns, other.ready_ns)
        to_ns = min(one.due_ns, other.due_ns)
        if from_ns > to_ns:
            return False
        return from_ns + clock.shortest_ns(int(least), from_ns, to_ns) <= to_ns

    def _lead(self, leader: _Interval, members: dict[_Interval, Variable]) -> None:
        """A batch, if the leader leads one."""
        model, leads = self._model, members[leader]
        for member, literal in members.items():
            if member is leader:
                continue
            model.add_implication(literal, leads)
            model.add(member.start == leader.start).only_enforce_if(literal)
            model.add(member.end == leader.end).only_enforce_if(literal)
        length = self._length(members, leads)
        self._owner.occupy(
            leader.part.resource,
            model.new_optional_interval_var(
                leader.start, length, leader.end, leads, ""
            ),
        )

    def _length(self, members: dict[_Interval, Variable], leads: Variable) -> Variable:
        """The time of a batch, rounded down; see :meth:`Batching.least`."""
        model, owner = self._model, self._owner
        alone = {member: owner.duration(member.part) for member in members}
        length = model.new_int_var(0, sum(alone.values()), "")
        count = sum(members.values())
        work = sum(alone[member] * literal for member, literal in members.items())
        helper = owner.helper(next(iter(members)).part, self._batching)
        sizes = []
        for size in range(1, self._batching.most + 1):
            literal = model.new_bool_var("")
            sizes.append(literal)
            share = int(self._batching.share(size) * WHOLE)
            model.add(count <= size).only_enforce_if(literal)
            model.add(
                length * WHOLE >= share * (work + (size - count) * helper) - WHOLE + 1
            ).only_enforce_if(literal)
        model.add(sum(sizes) == leads)
        return length
