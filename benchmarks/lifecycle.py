"""Starts and stops a pipeline over and over, and looks whether anything is left behind.

Each cycle builds the real runtime (two sources, two workers, the timer, a result queue)
over stages that do nothing, brings it to its first results, and stops it: at its end,
in the middle, or from a loop that is left. Threads and descriptors must be as many as
before; memory is a straight line through the cycles of the second half, and its 95 %
interval is printed. With ``--model`` a cycle is the whole pipeline with the small model
that ships.

    python benchmarks/lifecycle.py [--cycles 2000] [--model]
"""

import argparse
import gc
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from overhead import Empty, Pass

import edgepipe
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.results import Results, run
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import OnMiss, Overflow, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.process import Trend, read_process

RESOURCES = (Resource("cpu", 2),)
STOP_WITHIN_S = 5.0


class Give:
    """A last stage that hands its frames to the program."""

    name = "deliver"

    def __init__(self, results: Results) -> None:
        self.waits = True
        self._results = results

    def process(self, frame: Frame, worker: int) -> Frame:
        """Wait until there is room."""
        del worker
        self._results.write(frame, 0)
        return frame

    def close(self) -> None:
        """The results are closed by whoever made them."""


def bare(number: int) -> float:
    """One cycle of the bare runtime; return how long its stop took, in seconds."""
    results = Results()
    endless = number % 3 != 0
    plans = [
        StreamPlan(
            StreamSpec(
                name,
                (
                    Step("work", "cpu", stateful=False),
                    Step("deliver", "cpu", stateful=True),
                ),
                overflow=Overflow.BLOCK,
                credits=True,
                on_miss=OnMiss.DELIVER_LATE,
            ),
            Empty(10**9 if endless else 3),
            ((Pass("work"),), (Give(results),)),
            10**9,
            Pace.FAST,
        )
        for name in ("front", "rear")
    ]
    core = Scheduler([plan.spec for plan in plans], RESOURCES)
    runtime = Runtime(plans, core, RESOURCES, MonotonicClock(), lambda record: None)
    loop = run(results, runtime, STOP_WITHIN_S)
    for count, _ in enumerate(loop):
        if endless and count == 5:
            break
    begun_s = time.monotonic()
    loop.close()
    assert runtime.stop() == []
    took_s = time.monotonic() - begun_s
    assert runtime.irregularities() == []
    return took_s


def with_model(number: int) -> float:
    """One cycle of the whole pipeline; return how long its stop took, in seconds."""
    del number
    overrides = (
        "streams[0].source={uri: 'synthetic:?seed=1&frames=3', pace: fast}",
        "streams[0].deadline=10s",
        "model.path=scene-tiny",
        "sinks=[]",
    )
    with tempfile.TemporaryDirectory() as folder:
        pipeline = edgepipe.Pipeline.from_config(
            "synthetic", overrides, folder=Path(folder)
        )
        with pipeline:
            for _ in pipeline:
                break
            begun_s = time.monotonic()
        return time.monotonic() - begun_s


def repeat(cycle: Callable[[int], float], cycles: int) -> dict[str, object]:
    """Run so many cycles; return what they left behind."""
    lead = max(1, cycles // 2)
    longest_s = 0.0
    trend = Trend()
    before = read_process()
    for number in range(cycles):
        longest_s = max(longest_s, cycle(number))
        if number == lead - 1:
            gc.collect()
            before = read_process()
        if number >= lead:
            rss = read_process().rss_bytes or 0
            trend.add(number / 1000, rss / 1e6)
    gc.collect()
    after = read_process()
    slope = trend.slope()
    assert before.threads is not None
    assert after.threads is not None
    assert before.fds is not None
    assert after.fds is not None
    return {
        "cycles": cycles,
        "threads_left": after.threads - before.threads,
        "python_threads": [thread.name for thread in threading.enumerate()],
        "fds_left": after.fds - before.fds,
        "rss_mb": [
            round((reading.rss_bytes or 0) / 1e6, 2) for reading in (before, after)
        ],
        "mb_per_1000_cycles": slope
        and [round(slope.low, 3), round(slope.value, 3), round(slope.high, 3)],
        "longest_stop_ms": round(longest_s * 1e3, 1),
    }


def main() -> None:
    """Run the cycles and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--model", action="store_true")
    args = parser.parse_args()
    print(json.dumps(repeat(with_model if args.model else bare, args.cycles), indent=1))


if __name__ == "__main__":
    main()
