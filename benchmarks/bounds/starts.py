"""A bound that knows when jobs and batches start, to a bucket of time.

On the scarce resources time is cut into buckets of ``step_ns``. Columns: how much of
each part starts in each bucket alone (a), how much of a batch of b members starts in a
bucket (z), and how much of each part is one of them (a as well). Rows: a part that is
taken starts somewhere; a batch of b has b different members; and what starts keeps its
slot until it is done:

- *work*. Whatever starts in bucket k at an offset o and takes the time D works step - o
  in bucket k (column u), in full in the m buckets after it that are covered wherever in
  k it started, and the rest in the next ones (columns v, in any order). No bucket holds
  more work than its slots can do;
- *edges*. What takes D is certainly running at the edge i buckets further on if
  i * step < D. No more run at an edge than there are slots;
- *ready* and *due*. A member that becomes ready inside bucket k leaves less of it for
  work, and one that must start inside it leaves no less work than from there on.

The true schedule is a solution of all this, with every u and v as they really were, so
nothing is lost by rounding to buckets: their size decides how tight the bound is, not
whether it holds. All other resources are liquid as in :mod:`bounds.flow`.

A batch with members that are not in time is taken to be as short as if they were the
cheapest helpers (:meth:`bounds.problem.Batching.least`), so D is at least the least
share, for so many members and at most their sum, times their sum.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bounds.flow import Taken, add_choices, add_flow
from bounds.problem import Batching, Clock, Part, Problem
from bounds.program import MS, Program
from edgepipe.scheduler.job import PERMILLE


def starts_bound(
    problem: Problem,
    scarce: Iterable[str],
    step_ns: int = 2_000_000,
    piece_ns: int = 3 * 10**9,
) -> float:
    """Upper bound on the worth of what is completed in time.

    Args:
        problem: Frames and machine.
        scarce: Resources on which starts are looked at.
        step_ns: Size of a bucket.
        piece_ns: How much time is solved at once.
    """
    program = Program()
    taken = add_choices(program, problem)
    chosen = {*scarce}
    for resource in problem.slots:
        if resource in chosen:
            _Resource(program, problem, resource, step_ns).add(taken)
        else:
            add_flow(program, problem, taken, resource)
    return program.bound(piece_ns, margin_ns=500_000_000)


def scarce_resources(problem: Problem, least_demand: float = 0.6) -> list[str]:
    """Those that are asked for more than this share of any one second."""
    asked: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for frame in problem.frames:
        for part in frame.choices[0].parts:
            asked[part.resource][frame.release_ns // 10**9] += part.work_ns
    return [
        resource
        for resource, slots in problem.slots.items()
        if max(asked[resource].values(), default=0) > least_demand * slots * 10**9
    ]


class _Runner(NamedTuple):
    """A part that may start in a bucket."""

    frame: int
    taken: int
    """Column of its choice."""
    part: Part
    starts: list[int]
    """Columns of all its starts; grows."""


class _Bucket(NamedTuple):
    """A piece of time in which runs start."""

    number: int
    begin_ns: int
    ms_per_work: float
    """Least milliseconds for a nanosecond of work, at the best clock of the bucket."""

    def earliest_ns(self, part: Part) -> int:
        """When the part can start in it at the earliest."""
        return max(self.begin_ns, part.ready_ns)


class _Start(NamedTuple):
    """A part that starts in a bucket. Lengths are milliseconds."""

    column: int
    length: float
    """Least time of the run."""
    late: float
    """By how much it starts after the bucket's beginning at least."""
    early: float
    """How much of the bucket is left at least when it starts."""


class _Resource:
    """One resource's columns and rows."""

    def __init__(
        self, program: Program, problem: Problem, resource: str, step_ns: int
    ) -> None:
        self._program = program
        self._problem = problem
        self._resource = resource
        self._slots = problem.slots[resource]
        self._clock: Clock = problem.clocks[resource]
        self._step_ns = step_ns
        self._step = step_ns / MS
        self._work: dict[int, list[tuple[int, float]]] = defaultdict(list)
        """What works in each bucket."""
        self._edge: dict[int, list[tuple[int, float]]] = defaultdict(list)
        """What runs across the beginning of each bucket."""

    def add(self, taken: Taken) -> None:
        """Everything about the resource."""
        runners = list(self._runners(taken))
        for number, here in sorted(self._by_bucket(runners).items()):
            bucket = self._bucket(number)
            self._alone(bucket, here)
            keys: dict[str, list[_Runner]] = defaultdict(list)
            for runner in here:
                if runner.part.key:
                    keys[runner.part.key].append(runner)
            for key, alike in keys.items():
                self._batches(bucket, alike, self._problem.batching[key])
        for runner in runners:
            starts = [(column, -1.0) for column in runner.starts]
            at_ns = self._problem.frames[runner.frame].release_ns
            self._program.row(at_ns, [(runner.taken, 1.0), *starts])
        for number, terms in self._work.items():
            at_most = self._slots * self._step
            self._program.row(number * self._step_ns, terms, at_most)
        for number, terms in self._edge.items():
            self._program.row(number * self._step_ns, terms, self._slots)

    def _runners(self, taken: Taken) -> Iterable[_Runner]:
        for number, frame in enumerate(self._problem.frames):
            for column, choice in zip(taken[number], frame.choices, strict=True):
                for part in choice.parts:
                    if part.resource == self._resource:
                        yield _Runner(number, column, part, [])

    def _by_bucket(self, runners: Iterable[_Runner]) -> dict[int, list[_Runner]]:
        """Who could start in each bucket, roughly."""
        found: dict[int, list[_Runner]] = defaultdict(list)
        for runner in runners:
            first = runner.part.ready_ns // self._step_ns
            last = runner.part.due_ns // self._step_ns
            for number in range(first, last + 1):
                found[number].append(runner)
        return found

    def _bucket(self, number: int) -> _Bucket:
        begin_ns = number * self._step_ns
        best = self._clock.best(begin_ns, begin_ns + self._step_ns)
        return _Bucket(number, begin_ns, PERMILLE / best / MS)

    def _alone(self, bucket: _Bucket, here: Sequence[_Runner]) -> None:
        """Starts of single jobs, together by the number of buckets they fill."""
        groups: dict[int, list[_Start]] = defaultdict(list)
        for runner in here:
            part = runner.part
            batching = self._problem.batching.get(part.key)
            work = batching.least(1, part.work_ns) if batching else part.work_ns
            length = work * bucket.ms_per_work
            if bucket.earliest_ns(part) + length * MS <= part.due_ns:
                start = self._start(bucket, runner, length)
                groups[self._filled(length)].append(start)
        for starts in groups.values():
            lengths = [start.length for start in starts]
            self._run(
                bucket,
                [(start.column, 1.0) for start in starts],
                [(start.column, start.length) for start in starts],
                (min(lengths), max(lengths)),
                [[(start.column, start.late) for start in starts]],
                [[(start.column, start.early) for start in starts]],
            )

    def _batches(
        self, bucket: _Bucket, alike: Sequence[_Runner], batching: Batching
    ) -> None:
        """Starts of batches of each size."""
        able = alike
        for size in range(2, batching.most + 1):
            # Who is too late for a batch is too late for a larger one.
            able = _able(bucket, able, size, batching)
            if len({runner.frame for runner in able}) < size:
                return
            works = sorted(runner.part.work_ns for runner in able)
            dearest = max(1, sum(works[-size:]))
            scale = batching.least(size, dearest) / dearest * bucket.ms_per_work
            others = sum(works[: size - 1])
            members = [
                self._start(
                    bucket,
                    runner,
                    scale * (others + max(works[size - 1], runner.part.work_ns)),
                )
                for runner in able
            ]
            batch = self._program.column(bucket.begin_ns, self._slots)
            self._compose(bucket, batch, [member.column for member in members], size)
            self._run(
                bucket,
                [(batch, 1.0)],
                [
                    (member.column, scale * runner.part.work_ns)
                    for member, runner in zip(members, able, strict=True)
                ],
                (scale * sum(works[:size]), scale * dearest),
                [[(m.column, m.late)] for m in members if m.late],
                [[(m.column, m.early)] for m in members if m.early],
            )

    def _compose(
        self, bucket: _Bucket, batch: int, members: Sequence[int], size: int
    ) -> None:
        """A batch has so many members, and nobody is in it twice."""
        row, at_ns = self._program.row, bucket.begin_ns
        row(at_ns, [*((member, 1.0) for member in members), (batch, -size)])
        row(at_ns, [*((member, -1.0) for member in members), (batch, size)])
        for member in members:
            row(at_ns, [(member, 1.0), (batch, -1.0)])

    def _start(self, bucket: _Bucket, runner: _Runner, length: float) -> _Start:
        """How much of the part starts in the bucket in one of the ways there are."""
        column = self._program.column(bucket.begin_ns, 1.0)
        runner.starts.append(column)
        part = runner.part
        late = max(0, part.ready_ns - bucket.begin_ns) / MS
        left = (part.due_ns - bucket.begin_ns) / MS - length
        return _Start(column, length, late, max(0.0, self._step - left))

    def _filled(self, length: float) -> int:
        """Buckets after that of the start that so long a run fills in any case."""
        return max(0, math.floor(length / self._step) - 1)

    def _run(
        self,
        bucket: _Bucket,
        runs: Sequence[tuple[int, float]],
        lengths: Sequence[tuple[int, float]],
        extremes: tuple[float, float],
        late: Sequence[Sequence[tuple[int, float]]],
        early: Sequence[Sequence[tuple[int, float]]],
    ) -> None:
        """Let runs that start in the bucket keep their slots.

        Args:
            bucket: Where they start.
            runs: Terms that add up to the number of runs.
            lengths: Terms that add up to the time they take, in milliseconds.
            extremes: The shortest and the longest a run can be.
            late: Sets of terms, each of which adds up to no more than the
                milliseconds by which the runs start after the bucket's beginning.
            early: The same for what is left of the bucket when they start.
        """
        program, step, at_ns = self._program, self._step, bucket.begin_ns
        shortest, longest = extremes
        filled = self._filled(shortest)
        last = max(filled + 1, math.ceil(longest / step))

        def add(offset: int, most: float) -> int:
            """A column for the work in a later bucket, at most so much a run."""
            column = program.column(at_ns, self._slots * step)
            program.row(at_ns, [(column, 1.0), *((r, -most * c) for r, c in runs)])
            self._work[bucket.number + offset].append((column, 1.0))
            return column

        first = add(0, min(step, longest))
        for terms in late:
            beside = [(column, -step * count) for column, count in runs]
            program.row(at_ns, _sum([(first, 1.0), *beside, *terms]))
        if shortest >= step:
            for terms in early:
                program.row(at_ns, [(first, -1.0), *terms])
        for offset in range(1, filled + 1):
            covered = [(column, step * count) for column, count in runs]
            self._work[bucket.number + offset] += covered
        partly = [
            add(offset, min(step, longest - (offset - 1) * step))
            for offset in range(filled + 1, last + 1)
        ]
        done = [(column, -step * filled * count) for column, count in runs]
        done += [(column, -1.0) for column in (first, *partly)]
        program.row(at_ns, _sum([*lengths, *done]))
        for offset in range(1, math.ceil(shortest / step)):
            self._edge[bucket.number + offset] += runs


def _able(
    bucket: _Bucket, alike: Sequence[_Runner], size: int, batching: Batching
) -> Sequence[_Runner]:
    """Who can be in time in a batch of this size that starts in the bucket."""
    able = alike
    while len(able) >= size:
        works = sorted(runner.part.work_ns for runner in able)
        others, last = sum(works[: size - 1]), works[size - 1]
        staying = []
        for runner in able:
            work = others + max(last, runner.part.work_ns)
            least_ns = batching.least(size, work) * bucket.ms_per_work * MS
            if bucket.earliest_ns(runner.part) + least_ns <= runner.part.due_ns:
                staying.append(runner)
        if len(staying) == len(able):
            return able
        able = staying
    return ()


def _sum(terms: Iterable[tuple[int, float]]) -> Iterable[tuple[int, float]]:
    """The terms with each column once."""
    total: dict[int, float] = defaultdict(float)
    for column, value in terms:
        total[column] += value
    return total.items()
