"""How a decision reaches the thread that carries it out: three ways, measured.

The real runtime runs frames through three jobs on two resources, so that every job is
handed from one thread to another, and the time from when a job could begin until it
began is taken from the frames' records. The ways:

* ``lock``: the scheduler under one lock, a SimpleQueue for each resource (as built);
* ``thread``: one thread owns the scheduler and takes events from a queue;
* ``condition``: one lock, and a condition variable for each resource.

Each runs alone, and beside a thread that computes in Python and never lets go of the
global lock but when it must; that one also with other switch intervals. Everything is
interleaved, and medians over the rounds are printed, with the range of the p99.

    python benchmarks/handoff.py [--rounds 5] [--frames 300]
"""

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from overhead import Empty, Pass

from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival, SourceEvent
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import JobDone, JobFailed, Start
from edgepipe.scheduler.job import OnMiss, Overflow, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.records import FrameRecord

PERIOD_NS = 2_000_000
RESOURCES = (Resource("cpu"), Resource("accelerator"))
INTERVALS_MS = (5.0, 1.0, 0.5, 0.2, 0.1, 0.05)


class Paced(Empty):
    """Frames that are due every 2 ms."""

    def next_arrival(self) -> Arrival | None:
        """The next frame."""
        arrival = super().next_arrival()
        if arrival is None:
            return None
        return Arrival(arrival.index, arrival.index * PERIOD_NS)


class ConditionQueue:
    """What a SimpleQueue does, with a condition variable."""

    def __init__(self) -> None:
        self._items: deque[Start | None] = deque()
        self._changed = threading.Condition()

    def put(self, item: Start | None) -> None:
        """Never waits."""
        with self._changed:
            self._items.append(item)
            self._changed.notify()

    def get(self) -> Start | None:
        """Wait for an item."""
        with self._changed:
            while not self._items:
                self._changed.wait()
            return self._items.popleft()


class OnConditions(Runtime):
    """One lock, and a condition variable for each resource."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        crew = self._crew
        queues: dict[str, Any] = {name: ConditionQueue() for name in crew.queues}
        crew.queues = queues


class OwnedByAThread(Runtime):
    """One thread owns the scheduler; the others tell it what happened."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._owner = threading.Thread(target=self._own, daemon=True)

    def start(self, warm_up_ns: int = 0, measure_ns: int | None = None) -> None:
        """The owner first."""
        self._owner.start()
        super().start(warm_up_ns, measure_ns)

    def stop(self, within_s: float = 5.0) -> list[str]:
        """The owner last."""
        stuck = super().stop(within_s)
        self._inbox.put(None)
        self._owner.join()
        return stuck

    def _own(self) -> None:
        while (told := self._inbox.get()) is not None:
            told()

    def _arrive(
        self,
        name: str,
        arrival: Arrival,
        capture_ns: int,
        events: tuple[SourceEvent, ...],
    ) -> None:
        told = partial(super()._arrive, name, arrival, capture_ns, events)
        self._inbox.put(told)

    def _finish(self, worker: Worker, event: JobDone | JobFailed) -> Start | None:
        self._inbox.put(partial(self._finished, worker, event))
        return None

    def _finished(self, worker: Worker, event: JobDone | JobFailed) -> None:
        start = super()._finish(worker, event)
        if start is not None:
            self._crew.queues[worker.resource].put(start)


WAYS: dict[str, type[Runtime]] = {
    "lock": Runtime,
    "thread": OwnedByAThread,
    "condition": OnConditions,
}


@dataclass(frozen=True, slots=True)
class Handed:
    """How long jobs of one run waited for their threads, and what a frame cost."""

    p50_us: float
    p99_us: float
    cpu_us: float
    jobs: int


def measure(kind: type[Runtime], frames: int, *, paced: bool) -> Handed:
    """Run so many frames."""
    steps = (
        Step("decode", "cpu", stateful=True),
        Step("infer", "accelerator", stateful=False),
        Step("deliver", "cpu", stateful=True),
    )
    spec = StreamSpec(
        "front",
        steps,
        overflow=Overflow.BLOCK,
        queue_capacity=4,
        credits=not paced,
        on_miss=OnMiss.DELIVER_LATE,
    )
    source = Paced(frames) if paced else Empty(frames)
    stages = tuple((Pass(step.name),) for step in steps)
    pace = Pace.REALTIME if paced else Pace.FAST
    plan = StreamPlan(spec, source, stages, 10**9, pace)
    waits_us: list[float] = []

    def keep(record: FrameRecord) -> None:
        waits_us.extend(span.queue_ns / 1e3 for span in record.spans)

    runtime = kind(
        [plan], Scheduler([spec], RESOURCES), RESOURCES, MonotonicClock(), keep
    )
    gc.collect()
    before_ns = time.process_time_ns()
    runtime.start()
    runtime.wait()
    runtime.stop()
    cpu_us = (time.process_time_ns() - before_ns) / frames / 1e3
    waits_us.sort()
    return Handed(
        statistics.median(waits_us),
        waits_us[len(waits_us) * 99 // 100],
        cpu_us,
        len(waits_us),
    )


@contextmanager
def spinning() -> Generator[None, None, None]:
    """A thread that computes in Python all the time."""
    done = threading.Event()

    def spin() -> None:
        number = 0
        while not done.is_set():
            for _ in range(10_000):
                number = (number * 31 + 7) & 0xFFFF

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def trial(kind: type[Runtime], frames: int, beside_ms: float | None) -> Handed:
    """One run; ``beside_ms``: the switch interval beside a spinner, None: alone."""
    if beside_ms is None:
        return measure(kind, frames, paced=True)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(beside_ms / 1e3)
    try:
        with spinning():
            return measure(kind, frames, paced=True)
    finally:
        sys.setswitchinterval(before_s)


def summed(found: Sequence[Handed]) -> dict[str, object]:
    """Medians over the rounds."""
    p99s = sorted(each.p99_us for each in found)
    return {
        "p50_us": round(statistics.median(each.p50_us for each in found), 1),
        "p99_us": round(statistics.median(p99s), 1),
        "p99_range_us": [round(p99s[0], 1), round(p99s[-1], 1)],
        "cpu_us_per_frame": round(statistics.median(each.cpu_us for each in found), 1),
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=300)
    args = parser.parse_args()
    trials: dict[str, Callable[[], Handed]] = {}
    for name, kind in WAYS.items():
        trials[f"{name}, alone"] = partial(trial, kind, args.frames, None)
        trials[f"{name}, as fast as it goes"] = partial(
            measure, kind, 10 * args.frames, paced=False
        )
        trials[f"{name}, beside a spinner, 5 ms"] = partial(
            trial, kind, args.frames, 5.0
        )
        trials[f"{name}, beside a spinner, 0.2 ms"] = partial(
            trial, kind, args.frames, 0.2
        )
    for interval_ms in INTERVALS_MS:
        name = f"lock, beside a spinner, {interval_ms:g} ms"
        trials[name] = partial(trial, Runtime, args.frames, interval_ms)
    found: dict[str, list[Handed]] = {name: [] for name in trials}
    for number in range(args.rounds + 1):
        order = list(trials) if number % 2 else list(reversed(trials))
        for name in order:
            handed = trials[name]()
            if number:  # the first round warms up imports, caches and the allocator
                found[name].append(handed)
    print(json.dumps({name: summed(each) for name, each in found.items()}, indent=1))


if __name__ == "__main__":
    main()
