"""CPU that edgepipe itself spends on a frame: everything but the work of the stages.

The real runtime, scheduler, ledger, statistics and frame log run with a source that
makes nothing and stages that do nothing, so all the CPU that the process spends is
hand-offs, scheduling and book-keeping. Fused and unfused steps, or different numbers of
streams, alternate in one run; each round gives one figure per variant, and the median
and range over the rounds are printed.

    python benchmarks/overhead.py [--frames 5000] [--rounds 7] [--policy slack]
    python benchmarks/overhead.py --streams 1 4 16 64

    python benchmarks/overhead.py --breakdown

With ``--breakdown`` the CPU time of the threads is split by part, without what reading
the clock for it takes. With ``--streams`` the frames are shared out among the streams,
steps are fused, and what the frames cost is given with its ratio to the first variant,
round by round. With ``--fps`` they come as from cameras, so many a second in all,
instead of as fast as they are wanted.
"""

import argparse
import gc
import json
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.pipeline.execute import Executor
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.ledger import Ledger
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.pipeline.streams import Travelling
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import Overflow, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.frame_log import FRAMES
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


@dataclass
class Paced(Empty):
    """Frames that are due at regular times, out of step with those of others."""

    period_ns: int = 0
    phase_ns: int = 0

    def next_arrival(self) -> Arrival | None:
        """The next frame."""
        arrival = super().next_arrival()
        if arrival is None:
            return None
        # The first one is due at once, whatever its stamp says.
        phase_ns = self.phase_ns if arrival.index else 0
        return Arrival(arrival.index, arrival.index * self.period_ns + phase_ns)


def plan_of(
    name: str,
    groups: tuple[tuple[str, ...], ...],
    frames: int,
    period_ns: int,
    phase_ns: int,
) -> StreamPlan:
    """One stream; ``period_ns``: 0 for as fast as its frames are wanted."""
    spec = StreamSpec(
        name,
        tuple(Step("+".join(g), "cpu", STATEFUL[g[0]]) for g in groups),
        queue_capacity=4,
        overflow=Overflow.BLOCK,
        queued_steps=2,
        credits=not period_ns,
    )
    stages = tuple(tuple(Pass(name) for name in group) for group in groups)
    source = Empty(frames)
    if period_ns:
        source = Paced(frames, period_ns=period_ns, phase_ns=phase_ns)
    pace = Pace.REALTIME if period_ns else Pace.FAST
    return StreamPlan(spec, source, stages, 10**10, pace)


def cpu_us_per_frame(
    groups: tuple[tuple[str, ...], ...],
    frames: int,
    slots: int,
    policy: Policy,
    folder: Path,
    *,
    streams: int = 1,
    fps: float = 0.0,
) -> float:
    """Run ``frames`` frames in all; return CPU microseconds of the process per frame.

    ``fps``: how many come in a second, of all streams; 0: as fast as they are wanted.
    """
    each = frames // streams
    period_ns = round(1e9 * streams / fps) if fps else 0
    plans = [
        plan_of(f"s{n}", groups, each, period_ns, n * period_ns // streams)
        for n in range(streams)
    ]
    # Memory for the streams' statistics is taken before the start, as in every run.
    stages = [name for group in groups for name in group]
    streams_named = [plan.spec.id for plan in plans]
    clock, kept = MonotonicClock(), RunStatistics(100_000, streams_named, stages)
    recorder = Recorder(folder / "frames.arrow", clock, FRAMES)
    recorder.start()

    def on_record(record: FrameRecord) -> None:
        kept.add(record)
        recorder.add(record)

    resources = [Resource("cpu", slots)]
    scheduler = Scheduler([plan.spec for plan in plans], resources, policy)
    runtime = Runtime(plans, scheduler, resources, clock, on_record)
    gc.collect()
    gc.freeze()  # as every run does before its first frame
    before = time.process_time_ns()
    runtime.start()
    runtime.wait()
    runtime.stop()
    recorder.close()
    spent = time.process_time_ns() - before
    gc.unfreeze()
    done = sum(runtime.account(plan.spec.id).completed for plan in plans)
    assert fps or done == each * streams
    return spent / (each * streams) / 1e3


PARTS: Mapping[str, tuple[type, str]] = {
    "scheduler": (Scheduler, "handle"),
    "ledger": (Ledger, "captured"),
    "ledger, fates": (Ledger, "fate"),
    "statistics": (RunStatistics, "add"),
    "frame log, queue": (Recorder, "add"),
    "record of the frame": (Travelling, "record"),
    "way in, runtime": (Runtime, "_arrive"),
    "way on and out, runtime": (Runtime, "_finish"),
    "stages and their spans": (Executor, "run"),
}
"""Whose time is told apart. What one calls of another is the other's."""


class Split:
    """CPU time of threads by part, while it is entered with ``with``."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self._inside = threading.local()
        self._tick_ns = least_ns(time.thread_time_ns)

    def __enter__(self) -> "Split":
        self._originals = [
            (owner, name, getattr(owner, name)) for owner, name in PARTS.values()
        ]
        for part, (owner, name) in PARTS.items():
            setattr(owner, name, self._timed(part, getattr(owner, name)))
        return self

    def __exit__(self, *error: object) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)

    def _timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        inside, tick_ns, total = self._inside, self._tick_ns, self.ns

        def timed(*args: Any, **options: Any) -> Any:
            around = getattr(inside, "spent_ns", 0)
            inside.spent_ns = 0
            before_ns = time.thread_time_ns()
            try:
                return call(*args, **options)
            finally:
                spent_ns = time.thread_time_ns() - before_ns
                total[part] += spent_ns - inside.spent_ns - tick_ns
                inside.spent_ns = around + spent_ns + tick_ns

        return timed


def least_ns(clock: Callable[[], int]) -> int:
    """What reading a clock takes."""
    times = [clock() for _ in range(1000)]
    return min(b - a for a, b in pairwise(times))


def breakdown(frames: int, slots: int, policy: Policy, rounds: int) -> dict[str, Any]:
    """Microseconds of a frame by part, median of the rounds.

    The rest is hand-offs, threads that wake up, the source's loop, and the writer of
    the frame log.
    """
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder, Split() as split:
            all_us = cpu_us_per_frame(FUSED, frames, slots, policy, Path(folder))
        parts = {part: split.ns[part] / frames / 1e3 for part in PARTS}
        parts["everything, with the clocks of this split"] = all_us
        if number:
            for part, us in parts.items():
                found.setdefault(part, []).append(us)
    return {part: round(statistics.median(us), 1) for part, us in found.items()}


def compare(
    variants: Mapping[str, Callable[[Path], float]], rounds: int
) -> dict[str, dict[str, float]]:
    """Run the variants in turn; figures over the rounds, ratios to the first one."""
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, variant in variants.items():
            with tempfile.TemporaryDirectory() as folder:
                us = variant(Path(folder))
            if number:  # the first round warms up imports, caches and the allocator
                figures[name].append(us)
    base = next(iter(figures.values()))
    return {
        name: {
            "median_us": round(statistics.median(values), 1),
            "min_us": round(min(values), 1),
            "max_us": round(max(values), 1),
            "ratio": round(
                statistics.median(
                    own / first for own, first in zip(values, base, strict=True)
                ),
                2,
            ),
        }
        for name, values in figures.items()
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--policy", choices=list(BY_NAME), default="slack")
    parser.add_argument("--streams", type=int, nargs="+", default=[])
    parser.add_argument("--fps", type=float, default=0.0)
    parser.add_argument("--breakdown", action="store_true")
    args = parser.parse_args()
    policy = BY_NAME[args.policy]
    if args.breakdown:
        split = breakdown(args.frames, args.slots, policy, args.rounds)
        print(json.dumps(split, indent=1))
        return
    variants: dict[str, Callable[[Path], float]] = {}
    for streams in args.streams:
        variants[f"{streams} streams"] = partial(
            cpu_us_per_frame,
            FUSED,
            args.frames,
            args.slots,
            policy,
            streams=streams,
            fps=args.fps,
        )
    if not args.streams:
        for name, groups in {"fused": FUSED, "unfused": UNFUSED}.items():
            variants[name] = partial(
                cpu_us_per_frame, groups, args.frames, args.slots, policy, fps=args.fps
            )
    how = {"frames": args.frames, "slots": args.slots, "policy": args.policy}
    print(json.dumps({**how, **compare(variants, args.rounds)}, indent=1))


if __name__ == "__main__":
    main()
