"""Small loads for the simulator. Imports nothing that is not in the standard library.

Run as a module it prints the digests of some of them, for other interpreters.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.outcome import Outcome
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import (
    FRAME_RATE_UNIT_NS,
    Camera,
    ClockStep,
    Failure,
    Scenario,
    ServiceModel,
    Slow,
    Stall,
    StampError,
)
from edgepipe.scheduler.simulate import simulate

MS = 1_000_000
SECOND = 1000 * MS
GPU = Resource("gpu")
CPU = Resource("cpu", slots=2)


def camera(
    name: str,
    cost: int | ServiceModel,
    *,
    period_ns: int = 33 * MS,
    deadline_ns: int = 50 * MS,
    phase_ns: int = 0,
    expected_ns: int | None = None,
    post: int | ServiceModel = 0,
    batch_curve: tuple[int, ...] = (),
    camera: dict[str, Any] | None = None,
    **spec: Any,
) -> Camera:
    """A stream that runs a network on the gpu, and a step on the cpu if that is given.

    ``expected_ns`` is what the profile says of the network; the truth unless given.
    """
    models = [m if isinstance(m, ServiceModel) else ServiceModel(m) for m in (cost,)]
    batch_max = max(1, len(batch_curve))
    steps = [
        Step(
            "infer",
            "gpu",
            stateful=False,
            cost_ns=models[0].mean_ns if expected_ns is None else expected_ns,
            batch_key="model" if batch_curve else "",
            batch_max=batch_max,
            batch_curve=batch_curve,
        )
    ]
    if post:
        models.append(post if isinstance(post, ServiceModel) else ServiceModel(post))
        steps.append(Step("post", "cpu", stateful=False, cost_ns=models[1].mean_ns))
    made = StreamSpec(
        name, tuple(steps), deadline_ns=deadline_ns, period_ns=period_ns, **spec
    )
    rate = FRAME_RATE_UNIT_NS // period_ns
    return Camera(made, tuple(models), rate, phase_ns=phase_ns, **(camera or {}))


def load(duration_ns: int, cameras: Iterable[Camera], **more: Any) -> Scenario:
    """The cameras on one gpu and two processor cores."""
    return Scenario("test", duration_ns, (GPU, CPU), tuple(cameras), **more)


def play(scenario: Scenario, policy: str, seed: int = 1) -> Outcome:
    """What becomes of it."""
    return simulate(scenario, BY_NAME[policy], seed)


def share(outcome: Outcome, *streams: str) -> float:
    """Frames in time, of all that these streams captured; of all if none is named."""
    found = [r for r in outcome.records if not streams or r.stream in streams]
    return sum(record.fate == "completed" for record in found) / len(found)


def longest_miss_run(outcome: Outcome, stream: str) -> int:
    """Most frames of the stream in a row that were not in time."""
    longest = run = 0
    records = (r for r in outcome.records if r.stream == stream)
    for record in sorted(records, key=lambda record: record.sequence):
        run = 0 if record.fate == "completed" else run + 1
        longest = max(longest, run)
    return longest


def reasons(outcome: Outcome) -> dict[str, int]:
    """How many frames met each end: the reason, or the fate of those without one."""
    found: dict[str, int] = {}
    for record in outcome.records:
        end = record.reason or record.fate
        found[end] = found.get(end, 0) + 1
    return found


def eventful() -> list[Scenario]:
    """Loads in which about everything happens that can."""
    noisy = ServiceModel(11 * MS, sigma_permille=100, slow=Slow(50, 3000))
    ladder = (Rung("full"), Rung("small", 850, (450, 1000)))
    cameras = [
        camera(
            f"camera {n}",
            noisy,
            phase_ns=n * 7 * MS,
            post=3 * MS,
            batch_curve=(1000, 1400, 1800),
            ladder=ladder,
            contract=Contract(9, 10),
            camera={
                "jitter_ns": MS,
                "failures": (Failure(0, chance_permille=10),),
                "stalls": (Stall(SECOND, SECOND * 5 // 4),) if n == 1 else (),
                "stamp_errors": (StampError(SECOND, 2 * SECOND, -5 * SECOND),)
                if n == 2
                else (),
            },
        )
        for n in range(4)
    ]
    mapper = camera(
        "map",
        40 * MS,
        period_ns=200 * MS,
        deadline_ns=400 * MS,
        criticality=Criticality.BACKGROUND,
        min_service_ns=SECOND,
    )
    late = replace(cameras[0], spec=replace(cameras[0].spec, id="late"))
    late = replace(late, starts_ns=SECOND, ends_ns=SECOND * 3 // 2)
    critical = [
        replace(one, spec=replace(one.spec, criticality=Criticality.CRITICAL))
        for one in cameras[:2]
    ]
    halved = (ClockStep(SECOND, "gpu", 500, 100 * MS),)
    return [
        load(2 * SECOND, [*cameras, late]),
        load(2 * SECOND, [*critical, mapper]),
        load(2 * SECOND, cameras[:2], clock_steps=halved),
    ]


def digests(policies: Iterable[str] = BY_NAME) -> list[str]:
    """Of every decision in the eventful loads."""
    return [
        simulate(scenario, BY_NAME[policy], seed=7, digest=True).digest
        for scenario in eventful()
        for policy in policies
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(digests()))
