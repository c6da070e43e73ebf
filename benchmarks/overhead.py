"""CPU that edgepipe itself spends on a frame: everything but the work of the stages.

The real runtime, scheduler, ledger, statistics and frame log run with a source that
makes nothing and stages that do nothing, so all the CPU that the process spends is
hand-offs, scheduling and book-keeping. Fused and unfused steps alternate in one run;
each round gives one figure per variant, and the median and range over the rounds are
printed.

    python benchmarks/overhead.py [--frames 5000] [--rounds 7] [--policy slack]
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import Overflow, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.recorder import Recorder
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.run_statistics import RunStatistics

PICTURE = Picture(PixelFormat.GRAY, (np.zeros((2, 2), np.uint8),), 2, 2)
STATEFUL = {"decode": True, "convert": False, "infer": False, "track": True}
STATEFUL["deliver"] = True
FUSED = (("decode",), ("convert", "infer"), ("track", "deliver"))
UNFUSED = tuple((name,) for name in STATEFUL)


@dataclass
class Empty:
    """A source of ``count`` frames that cost nothing."""

    count: int
    given: int = 0
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("empty:", 2, 2, None, "raw", live=False)
    )

    def next_arrival(self) -> Arrival | None:
        """The next frame."""
        if self.given == self.count:
            return None
        self.given += 1
        return Arrival(self.given - 1, None)

    def decode(self, index: int) -> Picture:
        """The one picture there is."""
        del index
        return PICTURE

    def close(self) -> None:
        """Nothing to release."""


@dataclass
class Pass:
    """A stage that changes nothing but makes a new frame, as real stages do."""

    name: str

    def process(self, frame: Frame, worker: int) -> Frame:
        """A copy of the frame."""
        del worker
        return frame.with_changes(variant="none")

    def close(self) -> None:
        """Nothing to release."""


def cpu_us_per_frame(
    groups: tuple[tuple[str, ...], ...],
    frames: int,
    slots: int,
    policy: Policy,
    folder: Path,
) -> float:
    """Run ``frames`` frames; return CPU microseconds of the process per frame."""
    steps = tuple(Step("+".join(g), "cpu", STATEFUL[g[0]]) for g in groups)
    spec = StreamSpec(
        "front",
        steps,
        queue_capacity=4,
        overflow=Overflow.BLOCK,
        queued_steps=2,
        credits=True,
    )
    stages = tuple(tuple(Pass(name) for name in group) for group in groups)
    plan = StreamPlan(spec, Empty(frames), stages, 10**10, Pace.FAST)
    clock, kept = MonotonicClock(), RunStatistics(100_000)
    recorder = Recorder(folder / "frames.arrow", clock)
    recorder.start()

    def on_record(record: FrameRecord) -> None:
        kept.add(record)
        recorder.add(record)

    resources = [Resource("cpu", slots)]
    scheduler = Scheduler([spec], resources, policy)
    runtime = Runtime([plan], scheduler, resources, clock, on_record)
    gc.collect()
    gc.freeze()  # as every run does before its first frame
    before = time.process_time_ns()
    runtime.start()
    runtime.wait()
    runtime.stop()
    recorder.close()
    spent = time.process_time_ns() - before
    gc.unfreeze()
    assert runtime.account("front").completed == frames
    return spent / frames / 1e3


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--policy", choices=list(BY_NAME), default="slack")
    args = parser.parse_args()
    policy = BY_NAME[args.policy]
    variants = {"fused": FUSED, "unfused": UNFUSED}
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(args.rounds + 1):
        for name, groups in variants.items():
            with tempfile.TemporaryDirectory() as folder:
                us = cpu_us_per_frame(
                    groups, args.frames, args.slots, policy, Path(folder)
                )
            if number:  # the first round warms up imports, caches and the allocator
                figures[name].append(us)
    result = {
        name: {
            "median_us": round(statistics.median(values), 1),
            "min_us": round(min(values), 1),
            "max_us": round(max(values), 1),
        }
        for name, values in figures.items()
    }
    how = {"frames": args.frames, "slots": args.slots, "policy": args.policy}
    print(json.dumps({**how, **result}, indent=1))


if __name__ == "__main__":
    main()
