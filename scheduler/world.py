"""The parts of the world that a simulation moves: cameras, frames and machines."""

from typing import NamedTuple

from edgepipe.scheduler.job import PERMILLE, Job, Resource, Step, StreamSpec
from edgepipe.scheduler.outcome import TRACK_ONLY, SimulatedSpan
from edgepipe.scheduler.scenario import Failure, Pause, Scenario, scaled
from edgepipe.scheduler.workload import (
    DrawnFrame,
    draw_frames,
    fails,
    failure_key,
)


class BrokenRuleError(Exception):
    """The scheduler did what no scheduler may do: a bug, not a property of a load."""


class MovingFrame:
    """A frame in flight, as the world knows it. Times are nanoseconds."""

    __slots__ = (
        "batch",
        "capture_ns",
        "cost_ns",
        "ready_ns",
        "running",
        "spans",
        "step",
        "variant",
    )

    def __init__(
        self, capture_ns: int, cost_ns: tuple[int, ...], ready_ns: int
    ) -> None:
        self.capture_ns = capture_ns
        self.cost_ns = cost_ns
        self.ready_ns = ready_ns
        self.step = 0
        """The first step that it may take next."""
        self.running = False
        self.variant = ""
        self.batch = 0
        self.spans: list[SimulatedSpan] = []


class Machine:
    """A resource while it works."""

    __slots__ = ("busy_ns", "free", "name", "pauses", "permille")

    def __init__(self, resource: Resource, pauses: tuple[Pause, ...]) -> None:
        self.name = resource.name
        self.free = list(reversed(range(resource.slots)))
        """Slots without work."""
        self.pauses = sorted(
            (pause.start_ns, pause.end_ns)
            for pause in pauses
            if pause.resource == resource.name
        )
        self.permille = PERMILLE
        """The clock as it really is."""
        self.busy_ns = 0

    def end_ns(self, start_ns: int, work_ns: int) -> int:
        """When work that begins now is done; ``work_ns`` is its time at full clock."""
        if self.permille != PERMILLE:
            work_ns = -(-work_ns * PERMILLE // self.permille)
        end_ns = start_ns + work_ns
        for pause_ns, resume_ns in self.pauses:
            if start_ns < resume_ns and end_ns > pause_ns:
                end_ns += resume_ns - max(start_ns, pause_ns)
        return end_ns


class Run(NamedTuple):
    """A batch on a slot of a machine."""

    jobs: tuple[Job, ...]
    machine: Machine
    worker: int
    start_ns: int


class Source:
    """A camera while it plays, and its frames in flight."""

    __slots__ = (
        "_failure_key",
        "_scales",
        "camera",
        "captured",
        "credits",
        "drawn",
        "frames",
        "late_ns",
        "parked",
        "refused",
        "spec",
    )

    def __init__(
        self, scenario: Scenario, index: int, spec: StreamSpec, seed: int
    ) -> None:
        self.camera = scenario.cameras[index]
        self.spec = spec
        self.drawn = draw_frames(scenario, index, seed)
        self._failure_key = failure_key(seed, index)
        self._scales = [
            () if {*rung.cost_permille} == {PERMILLE} else rung.cost_permille
            for rung in spec.ladder
        ]
        """By rung, thousandths for each step; empty where nothing is cheaper."""
        self.frames: dict[int, MovingFrame] = {}
        self.captured = 0
        self.credits = 0
        self.parked: DrawnFrame | None = None
        """The frame that waits for a credit."""
        self.late_ns = 0
        """How long it was kept waiting: all that follows is so much later."""
        self.refused = False

    def stamp_ns(self, capture_ns: int) -> int:
        """What the stamp of a frame captured now says."""
        for error in self.camera.stamp_errors:
            if error.start_ns <= capture_ns < error.end_ns:
                return capture_ns + error.offset_ns
        return capture_ns

    def begin(self, job: Job) -> int:
        """Start a job of one of the frames; returns its time alone at full clock.

        Raises:
            BrokenRuleError: There is no such frame, or it cannot take this step now.
        """
        frame = self.frames.get(job.sequence)
        if frame is None or frame.running or job.step < frame.step:
            raise BrokenRuleError(f"{job} cannot start")
        steps = self.spec.steps
        if job.resource != steps[job.step].resource:
            raise BrokenRuleError(f"{job} is on a wrong resource")
        if job.step > frame.step and not _may_skip(
            steps[frame.step : job.step], track_only=job.track_only
        ):
            raise BrokenRuleError(f"{job} leaves steps out")
        frame.running = True
        frame.step = job.step
        frame.variant = (
            TRACK_ONLY if job.track_only else self.spec.ladder[job.rung].name
        )
        frame.batch = frame.batch or 1
        scale = self._scales[job.rung]
        cost_ns = frame.cost_ns[job.step]
        return scaled(cost_ns, scale[job.step]) if scale else cost_ns

    def end(self, job: Job, start_ns: int, end_ns: int, worker: int) -> None:
        """The job is done: its frame may take the next step."""
        frame = self.frames[job.sequence]
        frame.running = False
        frame.step = job.step + 1
        step = self.spec.steps[job.step]
        frame.spans.append(
            SimulatedSpan(
                step.name, frame.ready_ns, start_ns, end_ns, step.resource, worker
            )
        )
        frame.ready_ns = end_ns

    @property
    def may_fail(self) -> bool:
        """Whether anything of it can break."""
        return bool(self.camera.failures)

    def failure(self, job: Job) -> Failure | None:
        """What breaks in this job, if anything does."""
        for failure in self.camera.failures:
            if failure.step == job.step and (
                job.sequence in failure.sequences
                or fails(
                    self._failure_key, job.sequence, job.step, failure.chance_permille
                )
            ):
                return failure
        return None

    def is_done(self, frame: MovingFrame) -> bool:
        """Whether the frame has nothing left to do."""
        left = self.spec.steps[frame.step :]
        return _may_skip(left, track_only=frame.variant == TRACK_ONLY)


def _may_skip(steps: tuple[Step, ...], *, track_only: bool) -> bool:
    """Whether a frame may leave these steps out: no step, or the network's."""
    return not steps or (track_only and not any(s.runs_on_track_only for s in steps))
