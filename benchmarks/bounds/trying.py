"""The best that can be made of a tiny trace of one stream, by trying everything.

What the bounds are tested against. A schedule is built job by job: each starts as
early as the ones before it allow. Trying all orders finds an optimum, since what any
schedule completes in time is also completed when its jobs, in order of their starts,
are moved to the front.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from edgepipe.scheduler.job import Step
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.simulate import batch_ns
from edgepipe.scheduler.workload import TraceFrame


@dataclass
class World:
    """A schedule in the making: every job as early as its place in line allows."""

    scenario: Scenario
    frames: Sequence[TraceFrame]
    free_ns: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """When each slot of each resource is free."""
    step: list[int] = field(default_factory=list[int])
    """Next step of each frame."""
    ready_ns: list[int] = field(default_factory=list[int])

    @classmethod
    def start(cls, scenario: Scenario, frames: Sequence[TraceFrame]) -> "World":
        """Nothing has happened yet."""
        return cls(
            scenario,
            frames,
            {r.name: [0] * r.slots for r in scenario.resources},
            [0] * len(frames),
            [frame.arrival_ns for frame in frames],
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the one stream."""
        return self.scenario.cameras[0].spec.steps

    def on_time(self) -> int:
        """Worth of the frames that are through."""
        return sum(
            frame.weight
            for frame, step in zip(self.frames, self.step, strict=True)
            if step == len(self.steps)
        )

    def moves(self) -> Iterator[tuple[int, ...]]:
        """Every job or batch that may come next on its resource."""
        for number, here in enumerate(self.steps):
            waiting = [i for i, step in enumerate(self.step) if step == number]
            for size in range(1, here.batch_max + 1):
                yield from combinations(waiting, size)

    def after(self, batch: tuple[int, ...]) -> "World | None":
        """The schedule with this batch appended; None if all of it is too late.

        Members that are too late go no further. They are of use all the same if they
        are cheap: the time of a batch goes by the mean of its jobs.
        """
        number = self.step[batch[0]]
        here = self.steps[number]
        slots = sorted(self.free_ns[here.resource])
        start_ns = max(slots[0], *(self.ready_ns[i] for i in batch))
        costs = [self.frames[i].cost_ns[0][number] for i in batch]
        work_ns = batch_ns(costs, here.batch_curve) if len(batch) > 1 else costs[0]
        end_ns = start_ns + work_ns
        in_time = [i for i in batch if end_ns <= self.frames[i].deadline_ns]
        if not in_time:
            return None
        world = World(
            self.scenario,
            self.frames,
            {**self.free_ns, here.resource: [*slots[1:], end_ns]},
            self.step.copy(),
            self.ready_ns.copy(),
        )
        for i in batch:
            world.step[i] = number + 1 if i in in_time else -1
            world.ready_ns[i] = end_ns
        return world


def optimum(scenario: Scenario, frames: Sequence[TraceFrame]) -> int:
    """Most that any schedule is worth: all orders of all jobs and batches."""
    best = 0
    pending = [World.start(scenario, frames)]
    while pending:
        world = pending.pop()
        best = max(best, world.on_time())
        if best == sum(frame.weight for frame in frames):
            break
        pending += [
            after for move in world.moves() if (after := world.after(move)) is not None
        ]
    return best


def anyhow(
    scenario: Scenario,
    frames: Sequence[TraceFrame],
    choose: Callable[[int], int],
) -> int:
    """What some schedule is worth; ``choose`` says which of so many moves is next."""
    world = World.start(scenario, frames)
    while True:
        moves = [
            after for move in world.moves() if (after := world.after(move)) is not None
        ]
        if not moves:
            return world.on_time()
        world = moves[choose(len(moves))]
