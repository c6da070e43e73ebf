"""Runs the live runtime under many schedules of its threads, each from a seed.

The real runtime with its sources, workers, timer and watchdog runs on locks, queues,
events and threads that are made here: one thread at a time goes on, and before each
operation that others could notice a seeded coin decides which. Time is virtual, so a
run takes milliseconds, and the same seed gives the same run. What is looked for:

* a deadlock or a lost wake-up: nobody can go on, or nothing happens for ever;
* books that do not balance, frames without a fate or with two, results out of order;
* threads that a stop leaves behind.

    python benchmarks/schedules.py [--count 100000] [--first 0] [--processes 2]
"""

import argparse
import json
import logging
import multiprocessing
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import SimpleQueue as RealQueue
from typing import Any, Generic, TypeVar

from edgepipe.errors import StoppedError
from edgepipe.pipeline import crew, execute, pump, results, runtime, timer
from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.results import Results, WhenFull
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.pipeline.stage import Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import (
    Criticality,
    OnMiss,
    Overflow,
    Resource,
    Step,
    StreamSpec,
)
from edgepipe.telemetry.records import FrameRecord

T = TypeVar("T")

MS = 1_000_000
HANG_AFTER_NS = 1_000 * MS
LIMIT_NS = 100_000 * MS
"""No scenario takes so long: whoever still waits then waits for ever."""
SMALL_STEP_NS = 50 * MS
"""Waits no longer than this may be over before others that could go on have."""


class Abort(BaseException):
    """Ends the threads of a schedule that has failed."""


class Task:
    """One thread of a schedule."""

    def __init__(self, body: Callable[[], None], thread: "FakeThread | None") -> None:
        self.body = body
        self.thread = thread
        self.go = threading.Lock()
        self.go.acquire()
        self.ready: Callable[[], bool] | None = None
        """What it waits for; None while it can go on."""
        self.until_ns: int | None = None
        """When it goes on in any case."""
        self.is_done = False
        self.over = threading.Event()


class Carriers:
    """Real threads that carry one task after the other: starting one is dear."""

    def __init__(self) -> None:
        self._idle: list[RealQueue[tuple[World, Task]]] = []

    def carry(self, world: "World", task: Task) -> None:
        """Run the task, once it gets its turn."""
        queue = self._idle.pop() if self._idle else self._begin()
        queue.put((world, task))

    def _begin(self) -> "RealQueue[tuple[World, Task]]":
        queue: RealQueue[tuple[World, Task]] = RealQueue()
        threading.Thread(target=self._loop, args=(queue,), daemon=True).start()
        return queue

    def _loop(self, queue: "RealQueue[tuple[World, Task]]") -> None:
        while True:
            world, task = queue.get()
            world.carry(task)
            self._idle.append(queue)
            task.over.set()


CARRIERS = Carriers()


class World:
    """Who goes on, and what time it is. Also the clock of the runtime under test."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._switch = self.rng.choice((0.05, 0.2, 0.5, 1.0))
        self._now_ns = 0
        self.points = 0
        """Moments at which another thread could have gone on."""
        self.failure = ""
        self.main = Task(lambda: None, None)
        self.current = self.main
        self.tasks = [self.main]

    # --- who goes on ------------------------------------------------------------------

    def point(self) -> None:
        """Others may go on before the caller does what it is about to do."""
        self._check()
        self.points += 1
        if self.rng.random() < self._switch:
            self._hand_over(self.current)

    def block(self, ready: Callable[[], bool], until_ns: int | None = None) -> bool:
        """Let others go on until ``ready`` holds, or it is so late; return which."""
        self._check()
        self.points += 1
        me = self.current
        me.ready, me.until_ns = ready, until_ns
        self._hand_over(me)
        me.ready = me.until_ns = None
        return ready()

    def _check(self) -> None:
        if self.failure:
            raise Abort

    def _hand_over(self, me: Task) -> None:
        chosen = self._choose()
        if chosen is me:
            return
        self.current = chosen
        chosen.go.release()
        me.go.acquire()
        self._check()

    def _choose(self) -> Task:
        now_ns = self._now_ns
        ready: list[Task] = []
        timed: list[tuple[int, Task]] = []
        for task in self.tasks:
            if task.is_done:
                continue
            if task.ready is None or task.ready():
                ready.append(task)
            elif task.until_ns is not None:
                if task.until_ns <= now_ns:
                    ready.append(task)
                else:
                    timed.append((task.until_ns, task))
        if ready:
            if timed and self.rng.random() < 0.1:
                # Those that could go on are slow: somebody's time has come before.
                at_ns, task = self.rng.choice(timed)
                if at_ns - now_ns <= SMALL_STEP_NS:
                    self._now_ns = at_ns
                    return task
            return self.rng.choice(ready)
        if not timed:
            self._fail("nobody can go on")
        at_ns, task = min(timed, key=lambda each: each[0])
        if at_ns > LIMIT_NS:
            self._fail("nothing happens any more")
        self._now_ns = at_ns
        return task

    def _fail(self, what: str) -> None:
        names = [
            "main" if task.thread is None else task.thread.name
            for task in self.tasks
            if not task.is_done
        ]
        self.failure = f"{what}: {', '.join(names)} wait"
        for task in self.tasks:
            if task is not self.current and not task.is_done:
                task.go.release()
        raise Abort

    def carry(self, task: Task) -> None:
        """Run a task from its first turn to its end, in a thread of its own."""
        task.go.acquire()
        try:
            self._check()
            task.body()
        except Abort:
            pass
        except BaseException as error:  # noqa: BLE001 - the top of a thread
            self.failure = self.failure or f"a thread ended with {error!r}"
        task.is_done = True
        if not self.failure:
            self.current = self._choose_next()
            self.current.go.release()
        elif not self.main.is_done:
            self.current = self.main
            self._release(self.main)

    def _choose_next(self) -> Task:
        try:
            return self._choose()
        except Abort:
            return self.main

    def _release(self, task: Task) -> None:
        if task.go.locked():
            task.go.release()

    def start(self, thread: "FakeThread") -> None:
        """One thread more that may go on."""
        task = thread.task = Task(thread.run, thread)
        self.tasks.append(task)
        CARRIERS.carry(self, task)
        self.point()

    def join_all(self) -> None:
        """Let everybody come to an end."""
        self.block(lambda: all(t.is_done for t in self.tasks if t is not self.main))

    # --- the clock --------------------------------------------------------------------

    def now_ns(self) -> int:
        """Virtual time; each look takes a microsecond."""
        self._now_ns += 1_000
        return self._now_ns

    def sleep(self, ns: int) -> None:
        """Let so much time pass."""
        self.block(lambda: False, self._now_ns + ns)

    def wait_until(self, at_ns: int, interrupt: Any) -> bool:
        """Wait for a moment, or for the event."""
        self.block(interrupt.is_set_now, at_ns)
        return bool(interrupt.is_set_now())

    watch_until = wait_until


WORLD: list[World] = []
"""The world of the schedule that runs."""


class FakeLock:
    """As ``threading.Lock``."""

    def __init__(self) -> None:
        self._is_taken = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, when it is free."""
        world = WORLD[-1]
        world.point()
        while self._is_taken:
            if not blocking:
                return False
            world.block(lambda: not self._is_taken)
        self._is_taken = True
        return True

    def release(self) -> None:
        """Give it back."""
        if not self._is_taken:
            raise RuntimeError("release unlocked lock")
        self._is_taken = False
        if not WORLD[-1].failure:
            WORLD[-1].point()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class FakeCondition(FakeLock):
    """As ``threading.Condition``."""

    def __init__(self) -> None:
        super().__init__()
        self._rounds = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock back until somebody calls."""
        heard = self._rounds
        self.release()
        WORLD[-1].block(lambda: self._rounds > heard)
        return self.acquire()

    def notify_all(self) -> None:
        """Wake all who wait."""
        self._rounds += 1


class FakeQueue(Generic[T]):
    """As ``queue.SimpleQueue``."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Never waits."""
        WORLD[-1].point()
        self._items.append(item)

    def get(self) -> T:
        """Wait for an item."""
        world = WORLD[-1]
        world.point()
        while not self._items:
            world.block(lambda: bool(self._items))
        return self._items.popleft()


class FakeEvent:
    """As ``threading.Event``."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set_now(self) -> bool:
        """Without giving others a turn."""
        return self._is_set

    def is_set(self) -> bool:
        """Whether it is."""
        WORLD[-1].point()
        return self._is_set

    def set(self) -> None:
        """Let all go on that wait for it."""
        WORLD[-1].point()
        self._is_set = True

    def clear(self) -> None:
        """As if it had not been set."""
        WORLD[-1].point()
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        world = WORLD[-1]
        world.point()
        until_ns = None if timeout is None else world.now_ns() + int(timeout * 1e9)
        if not self._is_set:
            world.block(lambda: self._is_set, until_ns)
        return self._is_set


class FakeThread:
    """As ``threading.Thread``."""

    def __init__(
        self,
        target: Callable[..., object] | None = None,
        args: tuple[object, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self._target, self._args = target, args
        self.name, self.daemon = name, daemon
        self.task: Task | None = None

    def run(self) -> None:
        """What it is for."""
        if self._target is not None:
            self._target(*self._args)

    @property
    def ident(self) -> int | None:
        """None before it was started."""
        return id(self) if self.task is not None else None

    def start(self) -> None:
        """Begin, once the coin says so."""
        if self.task is not None:
            raise RuntimeError("threads can only be started once")
        WORLD[-1].start(self)

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self.task is not None and not self.task.is_done

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        world = WORLD[-1]
        until_ns = None if timeout is None else world.now_ns() + int(timeout * 1e9)
        world.block(lambda: not self.is_alive(), until_ns)


MAIN = FakeThread(name="main")


def current_thread() -> FakeThread:
    """The thread that runs."""
    return WORLD[-1].current.thread or MAIN


@contextmanager
def in_place() -> Generator[None, None, None]:
    """The runtime's modules use the threads and locks of this one."""
    made: dict[str, object] = {
        "Lock": FakeLock,
        "Condition": FakeCondition,
        "Event": FakeEvent,
        "SimpleQueue": FakeQueue,
        "Thread": FakeThread,
        "current_thread": current_thread,
    }
    before: list[tuple[object, str, object]] = []
    modules = (crew, execute, pump, results, runtime, timer)
    for module in modules:
        for name, fake in made.items():
            if hasattr(module, name):
                before.append((module, name, getattr(module, name)))
                setattr(module, name, fake)
    try:
        yield
    finally:
        for changed, name, real in before:
            setattr(changed, name, real)


# --- what runs --------------------------------------------------------------------


class Counting:
    """A source of so many frames, 3 ms apart."""

    info = SourceInfo("counting:", 2, 2, 333.0, "raw", live=False)
    warnings: tuple[str, ...] = ()
    end_state = ("ended", "")

    def __init__(self, count: int) -> None:
        self._count = count
        self._given = 0

    def next_arrival(self) -> Arrival | None:
        """The next frame."""
        if self._given == self._count:
            return None
        self._given += 1
        return Arrival(self._given - 1, (self._given - 1) * 3 * MS)

    def decode(self, index: int) -> Picture:
        """There are no pixels here."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to release."""


class Busy:
    """A stage that takes its time, and may do something odd in one frame."""

    def __init__(
        self, name: str, takes_ns: int, odd: Callable[[Frame], None] | None
    ) -> None:
        self.name = name
        self._takes_ns = takes_ns
        self._odd = odd
        self.seen: list[int] = []

    def process(self, frame: Frame, worker: int) -> Frame:
        """Let time pass."""
        WORLD[-1].sleep(self._takes_ns)
        self.seen.append(frame.sequence)
        if self._odd is not None:
            self._odd(frame)
        return frame

    def close(self) -> None:
        """Nothing to release."""


ENDINGS = (
    "wait",
    "stop",
    "drain",
    "two stop",
    "a stage stops",
    "two stages stop",
    "the keeper stops",
    "a loop",
    "a loop is left",
    "stop at the start",
)
ODDITIES = ("none", "none", "raises", "hangs")


class Scenario:
    """One run of the runtime, made up from the world's coin."""

    def __init__(self, world: World, kind: type[Runtime]) -> None:
        self.world = world
        rng = world.rng
        self.ending = rng.choice(ENDINGS)
        self.oddity = rng.choice(ODDITIES)
        self.looks = rng.choice((0, 10, 30))
        """How often somebody looks at the books while it runs."""
        self.irregularities: list[str] = []
        self.records: list[FrameRecord] = []
        self.last_stages: list[Busy] = []
        self.results = Results(
            rng.randint(1, 2), rng.choice((WhenFull.BLOCK, WhenFull.DROP_OLDEST))
        )
        self.slots = rng.randint(1, 2)
        resources = (Resource("cpu", self.slots),)
        self.plans = [self._plan(f"s{n}") for n in range(rng.randint(1, 2))]
        if self.plans[0].spec.steps[0].stateful and rng.random() < 0.6:
            self.plans.append(self._branch(self.plans[0]))
        core = Scheduler([plan.spec for plan in self.plans], resources)
        self.runtime = kind(
            self.plans,
            core,
            resources,
            world,
            self._keep,
            hang_after_ns=HANG_AFTER_NS,
        )

    def _plan(self, name: str) -> StreamPlan:
        rng = self.world.rng
        waits = rng.random() < 0.6
        frames = rng.randint(0, 6)
        stages = (
            Busy("first", rng.randint(0, 3) * MS, self._odd),
            Busy("last", rng.randint(0, 3) * MS, self._deliver),
        )
        self.last_stages.append(stages[1])
        spec = StreamSpec(
            name,
            (
                Step("first", "cpu", stateful=rng.random() < 0.5),
                Step("last", "cpu", stateful=True),
            ),
            criticality=rng.choice(tuple(Criticality)),
            on_miss=rng.choice(tuple(OnMiss)),
            queue_capacity=rng.randint(1, 2),
            overflow=Overflow.BLOCK
            if waits
            else rng.choice((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
            max_in_flight=rng.randint(2, 3),
            credits=waits,
            period_ns=rng.choice((0, 3 * MS)),
        )
        groups: tuple[tuple[Stage, ...], ...] = ((stages[0],), (stages[1],))
        pace = rng.choice((Pace.FAST, Pace.REALTIME)) if waits else Pace.REALTIME
        deadline_ns = rng.choice((8, 15, 60)) * MS
        return StreamPlan(spec, Counting(frames), groups, deadline_ns, pace)

    def _branch(self, parent: StreamPlan) -> StreamPlan:
        """A stream that lives on the frames of another one."""
        own = self._plan("branch")
        spec = replace(own.spec, credits=False, overflow=Overflow.DROP_OLDEST)
        return replace(
            own,
            spec=spec,
            source=parent.source,
            pace=parent.pace,
            branch_of=parent.spec.id,
        )

    def _odd(self, frame: Frame) -> None:
        if frame.sequence == 1:
            if self.oddity == "raises":
                raise ValueError("odd")
            if self.oddity == "hangs":
                self.world.sleep(3 * HANG_AFTER_NS)

    def _deliver(self, frame: Frame) -> None:
        if "loop" in self.ending:
            self.results.write(frame, 0)
        stops = "stage" in self.ending and (
            frame.sequence == 0 if "two" in self.ending else frame.stream == "s0"
        )
        if stops:
            self.runtime.stop(5)

    def _keep(self, record: FrameRecord) -> None:
        self.records.append(record)
        if self.ending == "the keeper stops" and len(self.records) == 2:
            self.runtime.stop(5)

    # --- how it ends ------------------------------------------------------------------

    def play(self) -> None:
        """From start to stop; raises AssertionError for whatever is wrong."""
        live, ending = self.runtime, self.ending
        FakeThread(target=self._look, name="checker").start()
        if "loop" in ending:
            self._loop()
        elif ending == "stop at the start":
            other = FakeThread(target=live.stop, args=(5,), name="stopper")
            other.start()
            with suppress(StoppedError):
                live.start()
            other.join()
        else:
            live.start()
            if ending in ("stop", "two stop"):
                self.world.sleep(self.world.rng.randint(0, 20) * MS)
            if ending == "two stop":
                other = FakeThread(target=live.stop, args=(5,), name="stopper")
                other.start()
                live.stop(5)
                other.join()
            if ending == "drain":
                live.drain()
            if ending in ("wait", "drain"):
                assert live.wait(50), "it does not come to an end"
        stuck = live.stop(5)
        assert self.oddity == "hangs" or not stuck, f"stuck: {stuck}"
        self.world.join_all()
        self._check()

    def _look(self) -> None:
        for _ in range(self.looks):
            self.irregularities += self.runtime.irregularities()
            self.world.sleep(MS // 2)

    def _loop(self) -> None:
        loop = results.run(self.results, self.runtime, 5)
        for _ in loop:
            if self.ending == "a loop is left":
                break
        loop.close()

    def _check(self) -> None:
        live = self.runtime
        self.irregularities += live.irregularities()
        assert self.irregularities == [], self.irregularities[0]
        seen = [(record.stream, record.sequence) for record in self.records]
        assert len(seen) == len(set(seen)), "a frame has two fates"
        for plan in self.plans:
            account = live.account(plan.spec.id)
            assert account.in_flight == 0, "a frame has no fate"
            mine = [r for r in self.records if r.stream == plan.spec.id]
            assert account.captured == len(mine), "a record is missing"
        for stage in self.last_stages:
            assert stage.seen == sorted(stage.seen), "out of order"
        live.wait(0)


def explore(
    seed: int, kind: type[Runtime] = Runtime, play: str | None = None
) -> tuple[str, int]:
    """Run one schedule; return what was wrong, or the empty text, and its length.

    Args:
        seed: Everything follows from it.
        kind: The runtime under test.
        play: How the run is to end; None: as the seed says.
    """
    world = World(seed)
    WORLD.append(world)
    about = ""
    try:
        with in_place():
            scenario = Scenario(world, kind)
            scenario.ending = play or scenario.ending
            about = f"{scenario.ending}, {scenario.oddity}: "
            scenario.play()
    except Abort:
        pass
    except AssertionError as error:
        world.failure = world.failure or str(error)
    finally:
        if world.failure:
            _abandon(world)
        WORLD.pop()
    return (about + world.failure if world.failure else ""), world.points


def _abandon(world: World) -> None:
    """End the threads of a schedule that has failed, before the next one begins."""
    world.main.is_done = True
    for task in world.tasks[1:]:
        while not task.over.wait(0.01):
            if task.go.locked():
                task.go.release()


def _many(seeds: range) -> tuple[int, int, list[str]]:
    """Run these seeds; return how many, their points, and the first failures."""
    logging.getLogger("edgepipe").setLevel(logging.CRITICAL + 1)
    points, failures = 0, list[str]()
    for seed in seeds:
        failure, length = explore(seed)
        points += length
        if failure:
            failures.append(f"seed {seed}: {failure}")
    return len(seeds), points, failures


def main() -> None:
    """Run many schedules and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    begun_s = time.monotonic()
    last = args.first + args.count
    parts = [range(at, min(at + 500, last)) for at in range(args.first, last, 500)]
    schedules = points = 0
    failures: list[str] = []
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        for n, length, failed in pool.imap_unordered(_many, parts):
            schedules += n
            points += length
            failures += failed
    print(
        json.dumps(
            {
                "schedules": schedules,
                "points": points,
                "failures": len(failures),
                "first_failures": failures[:10],
                "seconds": round(time.monotonic() - begun_s, 1),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
