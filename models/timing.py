"""Latency of an engine, part by part, in the rows that trtexec prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.engine import AsyncEngine
from edgepipe.models.profile import WARM_UP_RUNS
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.stats import Distribution, distribution_of

MOST_RUNS = 100_000
PARTS = ("latency", "enqueue", "h2d", "compute", "d2h")
"""From submit to outputs; in submit; to the device; in the network; back."""
NO_COPIES = "the network runs where images and outputs lie: nothing is copied"


@runtime_checkable
class Phased(Protocol):
    """An engine on a device of its own, which knows when each part of a run ended."""

    def phases_ns(self, request: int = 0) -> Mapping[str, int]:
        """Time of ``h2d``, ``compute`` and ``d2h`` in the last run of a request."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured."""

    runs: int
    parts: Mapping[str, Distribution]
    """Nanoseconds by the names of :data:`PARTS`."""
    images_per_s: float
    """One request, one run after the other."""


def measure(
    engine: AsyncEngine, images: NDArray[np.uint8], duration_ns: int, clock: Clock
) -> Timing:
    """Run a warm engine for some time, at least once.

    Each round infers once in this thread, which is the time of the network, and once
    submits and waits, so that what else the machine does is in both.

    Args:
        engine: What to measure; its first request is used.
        images: One batch.
        duration_ns: How long.
        clock: Of the machine.

    Raises:
        EngineError: The library failed.
    """
    for _ in range(WARM_UP_RUNS):
        engine.infer(images)
        engine.submit(images)
        engine.wait()
    taken: dict[str, list[int]] = {name: [] for name in PARTS}
    on_device = isinstance(engine, Phased)
    begun_ns = now_ns = clock.now_ns()
    inferring_ns = 0
    while not taken["latency"] or (
        now_ns - begun_ns < duration_ns and len(taken["latency"]) < MOST_RUNS
    ):
        first_ns = clock.now_ns()
        engine.infer(images)
        second_ns = clock.now_ns()
        engine.submit(images)
        third_ns = clock.now_ns()
        engine.wait()
        now_ns = clock.now_ns()
        inferring_ns += second_ns - first_ns
        taken["latency"].append(now_ns - second_ns)
        taken["enqueue"].append(third_ns - second_ns)
        if isinstance(engine, Phased):
            for name, time_ns in engine.phases_ns().items():
                taken[name].append(time_ns)
        else:
            taken["compute"].append(second_ns - first_ns)
    runs = len(taken["latency"])
    return Timing(
        runs,
        {
            name: distribution_of(
                np.array(values, np.int64), len(values), "" if on_device else NO_COPIES
            )
            for name, values in taken.items()
        },
        runs * len(images) * 1e9 / inferring_ns,
    )
