"""A bound that treats work as a liquid: preemptive, divisible, never idle by mistake.

Columns: how much of each choice of a frame is taken (y), and how much of each part's
work is done in each elementary interval of its window (x). Rows: choices of a frame
add up to one; all the work of what is taken is done; no interval holds more than its
slots can do. A schedule is a solution, so the optimum is an upper bound.

**Batches.** A batch takes a share of the sum of its jobs alone. Charge each job its own
term of that sum: the charges of a batch add up to its time and lie inside its members'
windows, so whatever a batched schedule does is a solution. The charge of job j is at
least its work times the best share of any batch that j could be in time with, which
depends on their number. Let b jobs, j among them, start together at t and all be in
time, and let r <= t be the moment when the last of them became ready. At r all of them
are ready, and since t + time of the batch is not past any of their due times, neither
is r + the least time of any b jobs that are there. So looking at the moments when some
job becomes ready finds every possible b: it is enough that b jobs, j among them, are
ready and have that least time left.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from bounds.problem import Batching, Part, Problem
from bounds.program import MS, Program


def flow_bound(problem: Problem, piece_ns: int = 10 * 10**9) -> float:
    """Upper bound on the worth of what is completed in time."""
    program = Program()
    taken = add_choices(program, problem)
    for resource in problem.slots:
        add_flow(program, problem, taken, resource)
    return program.bound(piece_ns, margin_ns=10**9)


Taken = Sequence[Sequence[int]]
"""The column of each choice of each frame."""


def add_choices(program: Program, problem: Problem) -> Taken:
    """Columns for the choices; those of a frame add up to one at most."""
    taken = []
    for frame in problem.frames:
        at_ns = frame.release_ns
        columns = [program.column(at_ns, 1.0, choice.worth) for choice in frame.choices]
        if len(columns) > 1:
            program.row(at_ns, [(column, 1.0) for column in columns], 1.0)
        taken.append(columns)
    return taken


class _Demand(NamedTuple):
    """The parts of one frame that are the same step of different choices."""

    at_ns: int
    ready_ns: int
    due_ns: int
    needs: list[tuple[int, float]]
    """Column of the choice and its work in milliseconds."""


def add_flow(program: Program, problem: Problem, taken: Taken, resource: str) -> None:
    """Columns and rows for the work on one resource."""
    demands = list(_demands(problem, taken, resource))
    moments = sorted({d.ready_ns for d in demands} | {d.due_ns for d in demands})
    if not moments:
        return
    lengths = [(after - before) / MS for before, after in pairwise(moments)]
    inside: list[list[tuple[int, float]]] = [[] for _ in lengths]
    for demand in demands:
        first = bisect_left(moments, demand.ready_ns)
        last = bisect_left(moments, demand.due_ns)
        done = []
        for interval in range(first, last):
            column = program.column(demand.at_ns, lengths[interval])
            inside[interval].append((column, 1.0))
            done.append((column, -1.0))
        program.row(demand.at_ns, [*demand.needs, *done])
    slots = problem.slots[resource]
    for moment, length, terms in zip(moments, lengths, inside, strict=False):
        if len(terms) > slots:  # else the columns' own limits say it
            program.row(moment, terms, slots * length)


def _demands(problem: Problem, taken: Taken, resource: str) -> Iterable[_Demand]:
    """What each frame asks of the resource, at the best clock of its window."""
    clock = problem.clocks[resource]
    shares = _Shares(problem, resource)
    for frame, columns in zip(problem.frames, taken, strict=True):
        steps: dict[int, list[tuple[int, Part]]] = defaultdict(list)
        for column, choice in zip(columns, frame.choices, strict=True):
            for part in choice.parts:
                if part.resource == resource:
                    steps[part.step].append((column, part))
        for pairs in steps.values():
            yield _Demand(
                frame.release_ns,
                min(part.ready_ns for _, part in pairs),
                max(part.due_ns for _, part in pairs),
                [
                    (
                        column,
                        clock.shortest_ns(part.work_ns, part.ready_ns, part.due_ns)
                        * shares.of(part)
                        / MS,
                    )
                    for column, part in pairs
                ],
            )


class _Shares:
    """The least share of its own time that a part may be charged."""

    def __init__(self, problem: Problem, resource: str) -> None:
        self._batching = problem.batching
        self._largest: dict[Part, int] = {}
        self._dearest: dict[str, int] = {}
        parts: dict[str, list[Part]] = defaultdict(list)
        for frame in problem.frames:
            for choice in frame.choices:
                for part in choice.parts:
                    if part.key and part.resource == resource:
                        parts[part.key].append(part)
        for key, alike in parts.items():
            self._dearest[key] = max(part.work_ns for part in alike)
            found = largest_batches(alike, problem.batching[key], problem, resource)
            self._largest.update(found)

    def of(self, part: Part) -> float:
        """1 for a part that runs alone."""
        if not part.key or not part.work_ns:
            return 1.0
        batching, dearest = self._batching[part.key], self._dearest[part.key]
        # Helpers count for most beside the dearest company.
        works = [
            part.work_ns + others * dearest for others in range(self._largest[part])
        ]
        return min(
            batching.least(others + 1, work) / work for others, work in enumerate(works)
        )


def largest_batches(
    parts: Sequence[Part], batching: Batching, problem: Problem, resource: str
) -> dict[Part, int]:
    """The size of the largest batch that each part could be in time with."""
    clock = problem.clocks[resource]
    largest = dict.fromkeys(parts, 1)
    alive: list[Part] = []
    for newest in sorted(parts, key=lambda part: part.ready_ns):
        now_ns = newest.ready_ns
        alive = [part for part in alive if part.due_ns > now_ns]
        alive.append(newest)
        works = sorted(part.work_ns for part in alive)
        latest_ns = max(part.due_ns for part in alive)
        for size in range(2, min(batching.most, len(alive)) + 1):
            least_ns = int(batching.least(size, sum(works[:size])))
            ends_ns = now_ns + clock.shortest_ns(least_ns, now_ns, latest_ns)
            able = [part for part in alive if ends_ns <= part.due_ns]
            if len(able) >= size:
                for part in able:
                    largest[part] = max(largest[part], size)
    return largest
