"""The real runtime with its real threads in virtual time, as exact as a simulation.

Time stands still while any thread has something to do. When all of them wait, the one
that waits for the earliest moment goes on, and nobody else until all wait again. Of
several at one moment the order is the simulator's: ends of jobs in the order of their
starts, changes of hardware clocks, arrivals in the order of the streams, the timer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Condition, Event, current_thread
from typing import NamedTuple

from live import ours
from live.decisions import Step, Watched, of_job
from live.work import Task

from edgepipe.scheduler.events import (
    Action,
    JobDone,
    JobFailed,
    SetTimer,
    Start,
    TimerFired,
)
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.job import Resource, StreamSpec
from edgepipe.scheduler.policy import Policy
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.scheduler.world import Machine
from edgepipe.telemetry.records import FrameRecord

PATIENCE_S = 20.0
"""Real time after which a runtime that does nothing is held to be stuck."""
_END, _CHANGE, _ARRIVAL, _TIMER = range(4)
_SOURCE = "edgepipe-source-"


@dataclass
class _Waiter:
    """A thread that waits for a moment."""

    at_ns: int
    kind: int
    rank: int
    """Among waiters of one kind for one moment."""
    wake: Event

    @property
    def key(self) -> tuple[int, int, int]:
        return self.at_ns, self.kind, self.rank


class _Change(NamedTuple):
    """A hardware clock changes, or the runtime is told that it has."""

    at_ns: int
    is_told: bool
    resource: str
    permille: int


def _changes(scenario: Scenario) -> list[_Change]:
    found: list[_Change] = []
    for step in scenario.clock_steps:
        turned = _Change(step.at_ns, False, step.resource, step.permille)
        found.append(turned)
        if step.reported_after_ns is not None:
            told_ns = step.at_ns + step.reported_after_ns
            found.append(turned._replace(at_ns=told_ns, is_told=True))
    return sorted(found)


@dataclass
class _Progress:
    """What the scheduler has set in motion."""

    running: dict[Step, int] = field(default_factory=dict[Step, int])
    """First jobs of what runs, and which start it was."""
    timer_ns: int | None = None
    numbers: "count[int]" = field(default_factory=count)


class VirtualTime:
    """A clock, the work of stages, and who moves the time.

    Args:
        scenario: Whose streams and resources they are; a resource's pauses hold its
            work up.
        halts_ns: From when to when the whole process stands still.
    """

    def __init__(
        self, scenario: Scenario, halts_ns: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._streams = [camera.spec.id for camera in scenario.cameras]
        self._machines = {
            each.name: Machine(each, scenario.pauses) for each in scenario.resources
        }
        self._halts_ns = halts_ns
        self._now_ns = 0
        self._changed = Condition()
        self._waiters: list[_Waiter] = []
        self._changes = _changes(scenario)
        self._progress = _Progress()
        self._open = True

    # --- the clock --------------------------------------------------------------------

    def now_ns(self) -> int:
        return self._now_ns

    def wait_until(self, at_ns: int, interrupt: Event) -> bool:
        """For sources."""
        stream = current_thread().name.removeprefix(_SOURCE)
        if stream in self._streams:
            self._wait(_Waiter(at_ns, _ARRIVAL, self._streams.index(stream), Event()))
        return interrupt.is_set()

    def watch_until(self, at_ns: int, interrupt: Event) -> bool:
        """For the timer."""
        waiter = _Waiter(at_ns, _TIMER, 0, interrupt)
        with self._changed:
            if at_ns <= self._now_ns or not self._open:
                return interrupt.is_set()
            self._waiters.append(waiter)
            self._changed.notify()
        interrupt.wait()
        with self._changed:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def _wait(self, waiter: _Waiter) -> None:
        with self._changed:
            if waiter.at_ns <= self._now_ns or not self._open:
                return
            self._waiters.append(waiter)
            self._changed.notify()
        assert waiter.wake.wait(PATIENCE_S), "time stands still"

    # --- the work ---------------------------------------------------------------------

    def perform(self, task: Task) -> None:
        """Take as long as the task's work takes on its resource."""
        machine = self._machines[task.resource]
        rank = self._progress.running[Step(task.stream, task.sequence, task.step)]
        end_ns = machine.end_ns(task.start_ns, task.cost_ns)
        self._wait(_Waiter(end_ns, _END, rank, Event()))

    def make_core(
        self,
        streams: list[StreamSpec],
        resources: tuple[Resource, ...],
        policy: Policy,
    ) -> Watched:
        """The scheduler; what it sets in motion is noted."""
        world = self

        class Noted(Watched):
            def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
                actions = super().handle(now_ns, event)
                world._note(event, actions)
                return actions

        return Noted(streams, resources, policy)

    def _note(self, event: CoreEvent, actions: Sequence[Action]) -> None:
        with self._changed:
            found = self._progress
            if isinstance(event, JobDone | JobFailed):
                del found.running[of_job(event.jobs[0])]
            elif isinstance(event, TimerFired):
                found.timer_ns = None
            for action in actions:
                if isinstance(action, Start):
                    found.running[of_job(action.jobs[0])] = next(found.numbers)
                elif isinstance(action, SetTimer):
                    found.timer_ns = action.at_ns
            self._changed.notify()

    # --- who moves the time -----------------------------------------------------------

    def run(self, stand: ours.Stand) -> None:
        """Move the time until the last frame has left; look at the books meanwhile."""
        while not stand.runtime.wait(0):
            assert stand.runtime.irregularities() == []
            with self._changed:
                change = None
                if self._all_wait(stand):
                    change = self._go_on()
                else:
                    # Not everybody who comes to an end says so.
                    self._changed.wait(0.002)
            if change is not None:
                self._change(change, stand)

    def close(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._open = False
            for waiter in self._waiters:
                waiter.wake.set()

    def _all_wait(self, stand: ours.Stand) -> bool:
        kinds = [waiter.kind for waiter in self._waiters]
        sources = sum(not camera.ended for camera in stand.cameras.values())
        return (
            kinds.count(_END) == len(self._progress.running)
            and kinds.count(_ARRIVAL) == sources
            and self._timer_waits()
        )

    def _timer_waits(self) -> bool:
        timers = [waiter for waiter in self._waiters if waiter.kind == _TIMER]
        wanted_ns = self._progress.timer_ns
        return any(
            not timer.wake.is_set() and (wanted_ns is None or timer.at_ns <= wanted_ns)
            for timer in timers
        )

    def _go_on(self) -> "_Change | None":
        """Let the next thread go on, unless a hardware clock changes before that."""
        waiter = min(self._waiters, key=lambda waiter: waiter.key)
        if self._changes and (self._changes[0].at_ns, _CHANGE) < waiter.key[:2]:
            change = self._changes.pop(0)
            self._now_ns = change.at_ns
            return change
        self._waiters.remove(waiter)
        self._now_ns = max(self._now_ns, self._after_halts(waiter.at_ns))
        waiter.wake.set()
        return None

    def _change(self, change: "_Change", stand: ours.Stand) -> None:
        if change.is_told:
            stand.runtime.clock_changed(change.resource, change.permille)
        else:
            self._machines[change.resource].permille = change.permille

    def _after_halts(self, at_ns: int) -> int:
        for start_ns, end_ns in self._halts_ns:
            if start_ns <= at_ns < end_ns:
                return end_ns
        return at_ns


@dataclass(frozen=True)
class Lived:
    """What a run in virtual time left behind; its times count from its beginning."""

    records: list[FrameRecord]
    stand: ours.Stand


def live_through(
    scenario: Scenario,
    policy: Policy,
    frames: Mapping[str, Sequence[DrawnFrame]] | None = None,
    halts_ns: Sequence[tuple[int, int]] = (),
    warm_up_ns: int = 0,
) -> Lived:
    """Play the scenario, or these frames of it, with real threads in virtual time."""
    world = VirtualTime(scenario, halts_ns)
    records: list[FrameRecord] = []
    stand = ours.prepare(
        scenario,
        policy,
        ours.drawn(scenario, 1) if frames is None else frames,
        world.perform,
        world,
        records.append,
        world.make_core,
        hang_after_ns=scenario.duration_ns,
    )
    stand.start(0, warm_up_ns)
    try:
        world.run(stand)
    finally:
        world.close()
        stuck = stand.stop()
    assert stuck == []
    assert stand.runtime.balanced
    return Lived(records, stand)
