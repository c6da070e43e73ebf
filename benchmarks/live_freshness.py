"""Never show me the past: a camera that is far faster than what looks at its frames.

30 frames a second come, and the accelerator takes 110 to 200 ms for one: 5 to 9 a
second. A result may be two service times old. What is delivered must never be older,
the accelerator must hardly ever work for nothing, and nothing may grow. Steady service
times one after the other, then times that wander between them, with a deadline of twice
their mean.

    python benchmarks/live_freshness.py [--duration 60s] [--variants slack fifo ...]
        [--services 110ms 150ms 200ms wandering]
"""

import argparse
import os
from collections import Counter
from dataclasses import dataclass, field

from live import ours
from live.figures import table
from live.memory import Slope, sampled, slope
from live.work import RealWork, burn_releasing

from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import Mode, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Scenario, ServiceModel
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.records import FrameRecord

MS = 1_000_000
FPS = 30
WANDERING = tuple((110 + 10 * abs(n % 18 - 9)) * MS for n in range(18))
"""110 to 200 ms and back."""
SETTLED_S = 10.0
VARIANTS = {
    "slack": ("slack", Mode.LATEST_ONLY),
    "slack-all": ("slack", Mode.ALL),
    "leaky-newest-1": ("leaky-newest-1", Mode.ALL),
    "edf-drop": ("edf-drop", Mode.ALL),
    "fifo": ("fifo", Mode.ALL),
}
"""Policies, and which of its frames the stream wants to have looked at."""


@dataclass
class Tally:
    """What was delivered, counted and not kept. Times are nanoseconds."""

    captured: int = 0
    delivered: int = 0
    oldest_ns: int = 0
    useful_ns: int = 0
    wasted_ns: int = 0
    """Work on frames that were not delivered in time."""
    first_ns: int = 0
    last_ns: int = 0
    misses: Counter[str] = field(default_factory=Counter[str])

    def add(self, record: FrameRecord) -> None:
        """Count one frame."""
        self.captured += 1
        self.first_ns = self.first_ns or record.capture_ns
        self.last_ns = max(self.last_ns, record.done_ns)
        worked_ns = sum(span.service_ns for span in record.spans)
        if record.delivered:
            self.delivered += 1
            self.oldest_ns = max(self.oldest_ns, record.latency_ns)
        if record.fate == "completed":
            self.useful_ns += worked_ns
        else:
            self.wasted_ns += worked_ns
            self.misses[record.reason or record.fate] += 1

    @property
    def capacity_used(self) -> float:
        """Share of the time in which the accelerator worked for results in time."""
        return self.useful_ns / (self.last_ns - self.first_ns)

    @property
    def wasted_share(self) -> float:
        """Of the accelerator's work."""
        return self.wasted_ns / max(1, self.useful_ns + self.wasted_ns)


def overrun(service: str, length_ns: int, mode: Mode = Mode.LATEST_ONLY) -> Scenario:
    """The camera, and one accelerator with those service times."""
    model = ServiceModel(replay_ns=WANDERING)
    mean_ns = sum(WANDERING) // len(WANDERING)
    if service != "wandering":
        mean_ns = duration_ns(service)
        model = ServiceModel(mean_ns)
    spec = StreamSpec(
        "front",
        (Step("detect", "gpu", stateful=False, cost_ns=mean_ns),),
        deadline_ns=2 * mean_ns,
        period_ns=10**9 // FPS,
        mode=mode,
    )
    camera = Camera(spec, (model,), FPS * 1000)
    return Scenario(f"overrun {service}", length_ns, (Resource("gpu"),), (camera,))


def play(scenario: Scenario, policy: str) -> tuple[Tally, Slope | None]:
    """One run; the slope of the memory if it lasted long enough to tell."""
    tally, work = Tally(), RealWork(burn_releasing)
    frames = ours.drawn(scenario, 1)
    with sampled(1.0, SETTLED_S) as samples:
        ours.play(
            scenario,
            BY_NAME[policy],
            frames,
            work.perform,
            MonotonicClock(),
            tally.add,
            Scheduler,
        )
    if len(samples) < 10:
        return tally, None
    return tally, slope([at for at, _ in samples], [size for _, size in samples])


def row(service: str, variant: str, length_ns: int) -> list[str]:
    """One run."""
    policy, mode = VARIANTS[variant]
    scenario = overrun(service, length_ns, mode)
    tally, grown = play(scenario, policy)
    return [
        service,
        f"**{variant}**" if policy == "slack" else variant,
        f"{scenario.cameras[0].spec.deadline_ns / MS:.0f}",
        f"{tally.oldest_ns / MS:.1f}" if tally.delivered else "-",
        f"{tally.delivered} of {tally.captured}",
        f"{100 * tally.capacity_used:.1f}",
        f"{100 * tally.wasted_share:.2f}",
        f"{grown.slope:+.3f} (< {grown.upper:+.3f})" if grown else "-",
        ", ".join(f"{why} {n}" for why, n in tally.misses.most_common()),
    ]


HEADER = (
    "service",
    "variant",
    "deadline, ms",
    "oldest delivered, ms",
    "delivered",
    "of capacity, %",
    "wasted, %",
    "memory, MiB a minute",
    "misses",
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duration", default="60s")
    services = ["110ms", "150ms", "200ms", "wandering"]
    parser.add_argument("--services", nargs="+", default=services)
    parser.add_argument(
        "--variants", nargs="+", default=["slack"], choices=list(VARIANTS)
    )
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    length_ns = duration_ns(args.duration)
    found = [
        row(service, variant, length_ns)
        for service in args.services
        for variant in args.variants
    ]
    print(table(HEADER, found))


if __name__ == "__main__":
    main()
