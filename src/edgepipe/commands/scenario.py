"""From a scenario's YAML to what the simulator plays."""

from collections.abc import Iterator

from edgepipe.configs import scenario_load
from edgepipe.configs.scenario_load import stream_ids
from edgepipe.configs.scenario_schema import (
    BatchEntry,
    CameraEntry,
    PhasesEntry,
    RungEntry,
    ScenarioConfig,
    SlowEntry,
    StepEntry,
)
from edgepipe.errors import ConfigError
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import (
    FULL,
    PERMILLE,
    Criticality,
    Mode,
    OnMiss,
    Overflow,
    Resource,
    Rung,
    Step,
    StreamSpec,
    split,
)
from edgepipe.scheduler.scenario import (
    FRAME_RATE_UNIT_NS,
    Camera,
    ClockStep,
    Failure,
    Pause,
    Phases,
    Scenario,
    ServiceModel,
    Slow,
    Stall,
    StampError,
    Surge,
)


def load_scenario(name_or_path: str) -> Scenario:
    """The scenario of that name, or of that file.

    Raises:
        ConfigErrors: Everything that is wrong with it.
        ConfigError: There is none, or it cannot be read.
    """
    loaded = scenario_load.read(name_or_path)
    return checked_scenario(loaded.config, loaded.name, name_or_path)


def checked_scenario(config: ScenarioConfig, name: str, where: str) -> Scenario:
    """The scenario; what only its parts know to be wrong with each other is an error.

    Raises:
        ConfigError: That, with ``where`` it was read from.
    """
    try:
        return to_scenario(config, name)
    except ValueError as error:
        raise ConfigError(where, "", str(error)) from error


def to_scenario(config: ScenarioConfig, name: str) -> Scenario:
    """The scenario that a checked configuration describes."""
    return Scenario(
        name,
        config.duration_ns,
        tuple(
            Resource(entry.name, entry.slots, entry.planned)
            for entry in config.resources
        ),
        tuple(
            _camera(config, entry, number)
            for entry in config.streams
            for number in range(entry.count or 1)
        ),
        tuple(
            ClockStep(
                change.at_ns,
                change.resource,
                permille(change.clock),
                change.reported_after_ns,
            )
            for change in config.clocks
        ),
        tuple(
            Pause(pause.resource, pause.start_ns, pause.end_ns)
            for pause in config.pauses
        ),
    )


def permille(share: float) -> int:
    """A number in whole thousandths."""
    return round(share * PERMILLE)


def _camera(config: ScenarioConfig, entry: CameraEntry, number: int) -> Camera:
    """One of the entry's equal streams."""
    spec = _spec(entry, number)
    rate = round(entry.fps * 1000)
    turn_ns = 0
    if not entry.in_sync:
        turn_ns = number * FRAME_RATE_UNIT_NS // (rate * (entry.count or 1))
    return Camera(
        spec,
        tuple(model for step in entry.steps for model in _service(config, step)),
        rate,
        phase_ns=entry.offset_ns + turn_ns,
        phase_spread_ns=entry.phase_spread_ns,
        jitter_ns=entry.jitter_ns,
        starts_ns=entry.starts_ns,
        ends_ns=entry.ends_ns,
        stalls=tuple(
            Stall(stall.at_ns, stall.at_ns + stall.length_ns)
            for stall in config.stalls
            if stall.stream == spec.id
        ),
        stamp_errors=tuple(
            StampError(stamp.start_ns, stamp.end_ns, stamp.ahead_ns - stamp.behind_ns)
            for stamp in config.stamps
            if stamp.stream == spec.id
        ),
        failures=tuple(_failures(config, entry, spec.id)),
    )


def _spec(entry: CameraEntry, number: int) -> StreamSpec:
    steps = tuple(part for step in entry.steps for part in _steps(step))
    return StreamSpec(
        stream_ids(entry.id, entry.count)[number],
        steps,
        criticality=Criticality(entry.criticality),
        on_miss=OnMiss(entry.on_miss),
        queue_capacity=entry.queue.capacity,
        overflow=Overflow(entry.queue.overflow),
        queued_steps=entry.queue.steps,
        max_in_flight=entry.max_in_flight,
        credits=entry.credits,
        deadline_ns=entry.deadline_ns,
        period_ns=FRAME_RATE_UNIT_NS // round(entry.fps * 1000),
        weight=entry.weight,
        contract=entry.contract,
        mode=Mode(entry.mode),
        min_interval_ns=round(1e9 / entry.max_rate) if entry.max_rate else 0,
        min_service_ns=entry.min_service_ns or 0,
        ladder=_ladder(entry, steps),
    )


def _steps(entry: StepEntry) -> tuple[Step, ...]:
    """The step, in as many pieces as it can be split into."""
    batch = entry.batch
    return split(
        Step(
            entry.name,
            entry.resource,
            entry.stateful,
            cost_ns=mean_ns(entry) if entry.budget_ns is None else entry.budget_ns,
            # Streams share a network if it has one name and takes one time.
            batch_key=f"{entry.name} {entry.time_ns}" if batch else "",
            batch_max=batch.max if batch else 1,
            batch_curve=_curve(batch) if batch else (),
            runs_on_track_only=not entry.network,
        ),
        entry.segments,
    )


def mean_ns(entry: StepEntry) -> int:
    """What the step takes on average before anything makes it slower."""
    if entry.replay:
        return sum(entry.replay) // len(entry.replay)
    return entry.time_ns or 0


def _curve(batch: BatchEntry) -> tuple[int, ...]:
    each = permille(batch.each)
    return tuple(PERMILLE + more * each for more in range(batch.max))


def _ladder(entry: CameraEntry, steps: tuple[Step, ...]) -> tuple[Rung, ...]:
    return tuple(_rung(rung, steps) for rung in entry.ladder) or (FULL,)


def _rung(entry: RungEntry, steps: tuple[Step, ...]) -> Rung:
    cost = permille(entry.cost)
    return Rung(
        entry.name,
        permille(entry.value),
        tuple(PERMILLE if step.runs_on_track_only else cost for step in steps),
        entry.stride,
        entry.infer_every,
        permille(entry.track_only_value),
        entry.batch_max,
    )


def _service(config: ScenarioConfig, entry: StepEntry) -> Iterator[ServiceModel]:
    """How long the step takes, or each of its pieces."""
    model = ServiceModel(
        mean_ns(entry) // entry.segments,
        tuple(each // entry.segments for each in entry.replay),
        permille(entry.spread),
        _slow(entry.slow),
        _phases(entry.phases),
        tuple(
            Surge(surge.start_ns, surge.end_ns, permille(surge.factor))
            for surge in config.surges
            if surge.step == entry.name
        ),
    )
    return iter([model] * entry.segments)


def _slow(entry: SlowEntry | None) -> Slow | None:
    return Slow(permille(entry.chance), permille(entry.factor)) if entry else None


def _phases(entry: PhasesEntry | None) -> Phases | None:
    if entry is None:
        return None
    return Phases(entry.length_ns, permille(entry.chance), permille(entry.factor))


def _failures(
    config: ScenarioConfig, entry: CameraEntry, stream: str
) -> Iterator[Failure]:
    """The stream's failures; a step in pieces breaks in the last one."""
    last = -1
    for step in entry.steps:
        last += step.segments
        for failure in config.failures:
            if (failure.stream, failure.step) == (stream, step.name):
                yield Failure(
                    last,
                    Reason(failure.reason),
                    permille(failure.chance),
                    frozenset(failure.sequences),
                )
