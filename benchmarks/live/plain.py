"""The pipeline that people write: a thread for each stage, a queue before each.

The queues are bounded and drop their oldest frame when they are full. Nobody looks at
deadlines: what is late is delivered late. A step has as many threads as its resource
has slots, and steps that share a resource take turns on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from threading import BoundedSemaphore, Event, Lock, Thread

from edgepipe.pipeline.process import Housekeeping
from edgepipe.scheduler.job import StreamSpec
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import FrameRecord, Span
from live.ours import LEAD_NS, Played, check
from live.work import Perform, Task


@dataclass
class Moving:
    """A frame on its way. Times are nanoseconds of the clock."""

    spec: StreamSpec
    drawn: DrawnFrame
    capture_ns: int
    ready_ns: int
    spans: list[Span] = field(default_factory=list[Span])


class Pipeline:
    """All streams through the same stages.

    Args:
        scenario: Whose resources and steps they are.
        depth: Most frames in a queue.
        perform: Does the work.
        clock: The time.
    """

    def __init__(
        self, scenario: Scenario, depth: int, perform: Perform, clock: Clock
    ) -> None:
        self._perform, self._clock = perform, clock
        self._turns = {r.name: BoundedSemaphore(r.slots) for r in scenario.resources}
        slots = {resource.name: resource.slots for resource in scenario.resources}
        steps = {s.name: s for c in scenario.cameras for s in c.spec.steps}
        self._queues = {name: Queue[Moving | None](depth) for name in steps}
        self._lock = Lock()
        self._left = 0
        self._idle = Event()
        self.records: list[FrameRecord] = []
        self._workers = [
            (name, Thread(target=self._work, args=(name, worker)))
            for name, step in steps.items()
            for worker in range(slots[step.resource])
        ]

    def run(
        self,
        specs: Sequence[StreamSpec],
        frames: Mapping[str, Sequence[DrawnFrame]],
        begins_ns: int,
    ) -> None:
        """Play all frames and wait until the last one has left."""
        self._left = sum(map(len, frames.values()))
        sources = [
            Thread(target=self._feed, args=(spec, frames[spec.id], begins_ns))
            for spec in specs
        ]
        threads = [*(thread for _, thread in self._workers), *sources]
        for thread in threads:
            thread.start()
        self._idle.wait()
        for name, _ in self._workers:
            self._queues[name].put(None)
        for thread in threads:
            thread.join()

    def _feed(
        self, spec: StreamSpec, frames: Sequence[DrawnFrame], begins_ns: int
    ) -> None:
        never = Event()
        for drawn in frames:
            self._clock.wait_until(begins_ns + drawn.arrival_ns, never)
            capture_ns = begins_ns + drawn.capture_ns
            self._pass_on(Moving(spec, drawn, capture_ns, self._clock.now_ns()))

    def _pass_on(self, frame: Moving) -> None:
        """To the queue of the frame's next step, or out."""
        steps = frame.spec.steps
        if len(frame.spans) == len(steps):
            late = frame.ready_ns > frame.capture_ns + frame.spec.deadline_ns
            self._leave(frame, "late" if late else "completed", "")
            return
        queue = self._queues[steps[len(frame.spans)].name]
        while not _put(queue, frame):
            self._drop_oldest(queue)

    def _drop_oldest(self, queue: "Queue[Moving | None]") -> None:
        try:
            oldest = queue.get_nowait()
        except Empty:
            return
        if oldest is not None:
            oldest.ready_ns = self._clock.now_ns()
            self._leave(oldest, "dropped", "overflow")

    def _work(self, name: str, worker: int) -> None:
        queue = self._queues[name]
        while (frame := queue.get()) is not None:
            number = len(frame.spans)
            resource = frame.spec.steps[number].resource
            with self._turns[resource]:
                start_ns = self._clock.now_ns()
                self._perform(
                    Task(
                        frame.spec.id,
                        frame.drawn.sequence,
                        number,
                        resource,
                        start_ns,
                        frame.drawn.cost_ns[number],
                    )
                )
            end_ns = self._clock.now_ns()
            span = Span(name, frame.ready_ns, start_ns, end_ns, resource, worker)
            frame.spans.append(span)
            frame.ready_ns = end_ns
            self._pass_on(frame)

    def _leave(self, frame: Moving, fate: str, reason: str) -> None:
        spans = tuple(frame.spans)
        record = FrameRecord(
            frame.spec.id,
            frame.drawn.sequence,
            frame.capture_ns,
            frame.drawn.capture_ns,
            frame.capture_ns + frame.spec.deadline_ns,
            fate,
            reason,
            spans[-1].stage if spans else "",
            frame.ready_ns,
            False,
            "full" if spans else "",
            1 if spans else 0,
            0,
            0,
            spans,
        )
        with self._lock:
            self.records.append(record)
            self._left -= 1
            if not self._left:
                self._idle.set()


def _put(queue: "Queue[Moving | None]", frame: Moving) -> bool:
    """Whether there was room."""
    try:
        queue.put_nowait(frame)
    except Full:
        return False
    return True


def play(
    scenario: Scenario,
    depth: int,
    frames: Mapping[str, Sequence[DrawnFrame]],
    perform: Perform,
    clock: Clock,
) -> Played:
    """Play the scenario on the clock until its last frame has left."""
    check(scenario)
    pipeline = Pipeline(scenario, depth, perform, clock)
    specs = [camera.spec for camera in scenario.cameras]
    with Housekeeping(clock):
        begins_ns = clock.now_ns() + LEAD_NS
        pipeline.run(specs, frames, begins_ns)
    return Played(begins_ns, pipeline.records)
