"""A scenario under the runtime: its threads, its clock, its scheduler."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.process import Housekeeping
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import OnMiss, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import Policy
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.simulate import spec_for
from edgepipe.scheduler.workload import DrawnFrame, draw_frames
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import FrameRecord
from live.cameras import DrawnCamera, DrawnStage, Load
from live.decisions import Decisions, Watched
from live.work import Perform

TICK_S = 0.1
"""Time between two looks at whether there is garbage to collect, as in every run."""
LEAD_NS = 50_000_000
"""Time between the start of the threads and the beginning of the scenario."""

MakeCore = Callable[[list[StreamSpec], tuple[Resource, ...], Policy], Scheduler]
OnRecord = Callable[[FrameRecord], None]


@dataclass(frozen=True)
class Played:
    """What one live run left behind."""

    begins_ns: int
    """The clock's time at the beginning of the scenario."""
    records: list[FrameRecord] = field(default_factory=list[FrameRecord])
    decisions: Decisions = field(default_factory=Decisions)
    stuck: tuple[str, ...] = ()
    """Threads that could not be stopped."""


@dataclass(frozen=True)
class Stand:
    """A runtime that is ready to play a scenario."""

    runtime: Runtime
    core: Scheduler
    cameras: Mapping[str, DrawnCamera]

    def start(self, begins_ns: int, warm_up_ns: int = 0) -> None:
        """Start all threads; the scenario begins at that moment."""
        for camera in self.cameras.values():
            camera.begins_ns = begins_ns
        self.runtime.start(warm_up_ns)

    def stop(self) -> list[str]:
        """Stop; returns the names of threads that are stuck."""
        for camera in self.cameras.values():
            camera.close()
        return self.runtime.stop()


def check(scenario: Scenario) -> None:
    """Refuse what cannot be played live.

    Raises:
        ValueError: Something in it only the simulator can do.
    """
    for camera in scenario.cameras:
        if camera.starts_ns or camera.stamp_errors or camera.failures:
            raise ValueError(f"{camera.spec.id}: only the simulator can play it")
    if scenario.clock_steps or scenario.pauses:
        raise ValueError(f"{scenario.name}: only the simulator can play it")


def drawn(scenario: Scenario, seed: int) -> dict[str, list[DrawnFrame]]:
    """The frames of each stream, drawn before anything runs."""
    return {
        camera.spec.id: list(draw_frames(scenario, index, seed))
        for index, camera in enumerate(scenario.cameras)
    }


def prepare(
    scenario: Scenario,
    policy: Policy,
    frames: Mapping[str, Sequence[DrawnFrame]],
    perform: Perform,
    clock: Clock,
    on_record: OnRecord,
    make_core: MakeCore = Watched,
    **options: Any,
) -> Stand:
    """Build everything that plays the frames; nothing runs yet.

    ``options`` are the runtime's.
    """
    cameras = {name: DrawnCamera(each, clock) for name, each in frames.items()}
    specs = [spec_for(camera, policy) for camera in scenario.cameras]
    load = Load(
        {name: {f.sequence: f for f in each} for name, each in frames.items()},
        {spec.id: {rung.name: rung for rung in spec.ladder} for spec in specs},
    )
    stages = _Stages(load, perform, clock)
    plans = [
        StreamPlan(
            spec, cameras[spec.id], stages.of(spec), spec.deadline_ns, Pace.REALTIME
        )
        for spec in specs
    ]
    core = make_core(specs, scenario.resources, policy)
    takes_late = {spec.id: spec.on_miss is OnMiss.DELIVER_LATE for spec in specs}

    def keep(record: FrameRecord) -> None:
        on_record(record if takes_late[record.stream] else judged(record))

    runtime = Runtime(plans, core, scenario.resources, clock, keep, **options)
    return Stand(runtime, core, cameras)


def judged(record: FrameRecord) -> FrameRecord:
    """The record as a delivering stage would make it: late results are given up."""
    if record.fate != "late":
        return record
    return record._replace(
        fate="dropped",
        reason="expired",
        short_ns=record.done_ns - record.deadline_ns,
    )


class _Stages:
    """The stages of all streams. Streams whose steps can be batched share them."""

    def __init__(self, load: Load, perform: Perform, clock: Clock) -> None:
        self._load, self._perform, self._clock = load, perform, clock
        self._shared: dict[tuple[int, str], DrawnStage] = {}

    def of(self, spec: StreamSpec) -> tuple[tuple[DrawnStage], ...]:
        """One for each of the stream's steps."""
        return tuple((self._stage(*each),) for each in enumerate(spec.steps))

    def _stage(self, number: int, step: Step) -> DrawnStage:
        made = DrawnStage(
            step.name, number, step, self._load, self._perform, self._clock
        )
        if not step.batch_key:
            return made
        return self._shared.setdefault((number, step.batch_key), made)


def play(
    scenario: Scenario,
    policy: Policy,
    frames: Mapping[str, Sequence[DrawnFrame]],
    perform: Perform,
    clock: Clock,
    on_record: OnRecord | None = None,
    make_core: MakeCore = Watched,
) -> Played:
    """Play the scenario on the clock until its last frame has left.

    ``on_record`` takes the records; without it they are kept.
    """
    check(scenario)
    records: list[FrameRecord] = []
    keep = on_record or records.append
    stand = prepare(scenario, policy, frames, perform, clock, keep, make_core)
    runtime = stand.runtime
    with Housekeeping(clock) as keeper:
        begins_ns = clock.now_ns() + LEAD_NS
        stand.start(begins_ns)
        try:
            while not runtime.wait(TICK_S):
                keeper.tick(idle=not runtime.jobs_running)
        finally:
            stuck = stand.stop()
    core = stand.core
    decisions = core.decisions if isinstance(core, Watched) else {}
    return Played(begins_ns, records, decisions, tuple(stuck))
