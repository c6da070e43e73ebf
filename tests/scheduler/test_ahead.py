"""A recording played as fast as it goes keeps every slot busy."""

from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import Action, FrameArrived, Grant, JobDone, Leave, Start
from edgepipe.scheduler.job import Job, Overflow, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME

MS = 1_000_000
DECODE, INFER, TRACK = 10 * MS, 90 * MS, 4 * MS
STEPS = (
    Step("decode", "cpu", stateful=True),
    Step("infer", "cpu", stateful=False),
    Step("track", "cpu", stateful=True),
)


class World:
    """Slots that take as long as they are told to, and sources that never run dry."""

    def __init__(self, slots: int, allowed_ns: int, *, waits: bool = True) -> None:
        spec = StreamSpec(
            "film",
            STEPS,
            overflow=Overflow.BLOCK,
            queue_capacity=4,
            queued_steps=2,
            credits=waits,
        )
        self.core = Scheduler([spec], [Resource("cpu", slots)], BY_NAME["slack"])
        self.allowed_ns = allowed_ns
        self.now_ns = 0
        self.running: list[tuple[int, int, Job, int]] = []
        self.busy_ns = 0
        self.started: list[tuple[int, int]] = []
        """Sequence and step of each job, in the order of their starts."""
        self.done: list[int] = []
        self.lost: list[int] = []
        self._sequence = 0
        self._take([*self.core.initial_grants()])

    def _take(self, actions: list[Action]) -> None:
        wanted = 0
        for action in actions:
            if isinstance(action, Start):
                (job,) = action.jobs
                took = (DECODE, INFER, TRACK)[job.step] + self.more_ns(job)
                self.busy_ns += took
                self.started.append((job.sequence, job.step))
                order = len(self.started)
                heappush(self.running, (self.now_ns + took, order, job, took))
            elif isinstance(action, Leave):
                (self.done if action.fate is None else self.lost).append(
                    action.sequence
                )
            elif isinstance(action, Grant):
                wanted += action.credits
        for _ in range(wanted):
            deadline_ns = self.now_ns + self.allowed_ns
            event = FrameArrived("film", self._sequence, self.now_ns, deadline_ns)
            self._sequence += 1
            self._take(self.core.handle(self.now_ns, event))

    def more_ns(self, job: Job) -> int:
        """By how much the job is longer than usual: the same for the same job."""
        return (job.sequence * 3 + job.step) * 7919 % 997 * MS // 50

    def run(self, frames: int) -> None:
        while len(self.done) + len(self.lost) < frames:
            self.now_ns, _, job, took = heappop(self.running)
            self._take(self.core.handle(self.now_ns, JobDone((job,), took)))


@pytest.mark.parametrize("slots", [3, 4])
def test_no_slot_waits_for_another_to_decode(slots: int) -> None:
    world = World(slots, 10**12)
    world.run(50)
    begun_ns, busy_ns = world.now_ns, world.busy_ns
    world.run(450)
    idle = 1 - (world.busy_ns - busy_ns) / (world.now_ns - begun_ns) / slots
    assert abs(idle) < 0.005


def test_frames_come_out_in_order_and_one_decoded_frame_is_kept() -> None:
    world = World(2, 10**12)
    world.run(60)
    assert world.done == list(range(60))
    kept = 0
    counts: list[int] = []
    for _, step in world.started:
        kept += (step == 0) - (step == 1)
        counts.append(kept)
    # Two may be in the works at once beside the one that is kept.
    assert max(counts) <= 3
    assert min(counts[60:]) >= 0


def test_a_frame_with_no_time_to_lose_is_not_held_up() -> None:
    """Each has half as much again as it needs: nobody decodes ahead of it."""
    world = World(2, 3 * (DECODE + INFER + TRACK) // 2)
    world.run(60)
    assert world.done
    place = {job: n for n, job in enumerate(world.started)}
    for sequence in world.done:
        later = [n for (s, step), n in place.items() if s > sequence + 1 and not step]
        assert all(place[sequence, 1] < n for n in later)


def test_a_camera_is_not_decoded_ahead() -> None:
    core = World(2, 10**12, waits=False).core
    actions: list[Action] = []
    for sequence in range(3):
        actions += core.handle(0, FrameArrived("film", sequence, 0, 10**12))
    (start,) = [a for a in actions if isinstance(a, Start)]
    after = core.handle(10 * MS, JobDone(start.jobs, DECODE))
    jobs = [job for a in after if isinstance(a, Start) for job in a.jobs]
    assert [(job.sequence, job.step) for job in jobs] == [(0, 1), (1, 0)]


@given(st.integers(1, 3), st.integers(1, 30))
def test_every_frame_of_a_short_recording_comes_out(slots: int, frames: int) -> None:
    world = World(slots, 10**12)
    world.run(frames)
    assert world.done == list(range(len(world.done)))
    assert len(world.done) >= frames
