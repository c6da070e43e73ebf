"""After a bad moment everything must be as before, whatever was believed in between."""

import pytest

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    FrameArrived,
    JobDone,
    JobFailed,
    Start,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Criticality, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Pause, Scenario, ServiceModel
from edgepipe.scheduler.simulate import simulate

MS, S = 10**6, 10**9


def starts(actions: list[Action]) -> list[Start]:
    return [action for action in actions if isinstance(action, Start)]


def camera(
    name: str, times_ms: tuple[int, ...], criticality: Criticality, fps: int = 15
) -> Camera:
    """A stream of one step that has no profile."""
    spec = StreamSpec(
        name,
        (Step("infer", "cpu", stateful=False),),
        criticality,
        queue_capacity=2,
        deadline_ns=100 * MS,
        period_ns=S // fps,
    )
    model = ServiceModel(replay_ns=tuple(time * MS for time in times_ms))
    return Camera(spec, (model,), fps * 1000)


def late_share(scenario: Scenario, policy: str, stream: str, after_ns: int) -> float:
    """Share of the stream's frames captured after a moment that were not in time."""
    records = [
        record
        for record in simulate(scenario, BY_NAME[policy], seed=1).records
        if record.stream == stream and record.capture_ns >= after_ns
    ]
    return sum(r.fate != "completed" for r in records) / len(records)


def test_who_is_held_back_for_a_better_chance_is_started_in_the_end() -> None:
    """Whoever is never started is never measured again, and its estimate stays."""
    spec = camera("front", (12,), Criticality.CRITICAL).spec
    core = Scheduler([spec], [Resource("cpu", 2)])
    sequence = 0

    def arrive(now_ns: int, allowed_ns: int) -> list[Action]:
        nonlocal sequence
        sequence += 1
        event = FrameArrived("front", sequence, now_ns, now_ns + allowed_ns)
        return core.handle(now_ns, event)

    for number, slow_ms in enumerate((500, 400, 55, 60, 150, 180, 200)):
        (start,) = starts(arrive(number * S, S))
        core.handle(number * S + slow_ms * MS, JobDone(start.jobs, slow_ms * MS))
    (start,) = starts(arrive(7 * S, S))
    core.handle(7 * S + MS, JobFailed(start.jobs, Fate.FAILED, Reason.STAGE_ERROR))
    begun = 0
    for frame in range(10):
        due_ns = 8 * S + frame * spec.period_ns
        begun += len(starts(arrive(due_ns, 100 * MS)))
        for later_ms in range(1, 66):
            begun += len(starts(core.handle(due_ns + later_ms * MS, TimerFired())))
    assert begun >= 2  # both slots were free all the time


@pytest.mark.parametrize("length_ms", [50, 200, 1000, 3000])
def test_a_resource_that_stood_still_is_forgiven(length_ms: int) -> None:
    front = camera("front", (12,), Criticality.CRITICAL)
    rear = camera("rear", (12,), Criticality.NORMAL)
    pause = Pause("cpu", 5 * S, 5 * S + length_ms * MS)
    scenario = Scenario(
        "standstill", 20 * S, (Resource("cpu"),), (front, rear), pauses=(pause,)
    )
    for stream in ("front", "rear"):
        after_ns = 6 * S + length_ms * MS
        assert late_share(scenario, "slack", stream, after_ns) < 0.02
