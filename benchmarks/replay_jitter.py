"""How exactly a recording is released at its own pace.

The real pump plays media time at 30 frames a second on a thread of its own, as the
runtime does, and the time from when each frame was due until it was handed on is taken.
The ways, each in several rounds that take turns:

* ``as is``: the thread sleeps with the timer slack of every thread on Linux, 50 us;
* ``slack 1 us``: the thread asks for less (``prctl(PR_SET_TIMERSLACK)``);
* ``busy``: as is, while another Python thread computes all the time.

A frame is never released early. Beside the lateness the spacing is compared with that
of the recording.

    python benchmarks/replay_jitter.py [--rounds 5] [--frames 300] [--speed 1]
"""

import argparse
import ctypes
import json
import statistics
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.source import Arrival, SourceEvent, SourceInfo
from edgepipe.telemetry.clock import MonotonicClock

FPS = 30
PR_SET_TIMERSLACK = 29
DEFAULT_SLACK_NS, SMALL_SLACK_NS = 50_000, 1_000


@dataclass
class Recording:
    """Frames with stamps and nothing in them."""

    count: int
    given: int = 0
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("bench:", 2, 2, FPS, "raw", live=False)
    )
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()

    def next_arrival(self) -> Arrival | None:
        """The next frame."""
        if self.given == self.count:
            return None
        self.given += 1
        return Arrival(self.given - 1, (self.given - 1) * 1_000_000_000 // FPS)

    def decode(self, index: int) -> Picture:
        """Nobody asks for pictures here."""
        raise NotImplementedError(index)

    def close(self) -> None:
        """Nothing is kept open."""


@dataclass(frozen=True)
class Released:
    """What one round saw, in nanoseconds."""

    late_ns: Sequence[int]
    """From when a frame was due until it was handed on."""
    spacing_ns: Sequence[int]
    """How far the distance of two frames was from that of their stamps."""


def play(frames: int, speed: Fraction, slack_ns: int) -> Released:
    """Play a recording on a thread of its own."""
    clock = MonotonicClock()
    due: list[int] = []
    at: list[int] = []

    def arrive(arrival: Arrival, due_ns: int, _: tuple[SourceEvent, ...]) -> None:
        at.append(clock.now_ns())
        due.append(due_ns)

    pump = Pump(
        "front",
        Recording(frames),
        Pace.REALTIME,
        clock,
        threading.Event(),
        arrive,
        lambda _: None,
        waits=False,
        speed=speed,
    )

    def body() -> None:
        set_slack(slack_ns)
        pump.run(None)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    # The first frame defines what is due, so it says nothing.
    late = [a - d for a, d in zip(at, due, strict=True)][1:]
    spacing = [
        abs((b - a) - (d - c))
        for (a, b), (c, d) in zip(pairwise(at), pairwise(due), strict=True)
    ]
    return Released(late, spacing)


def set_slack(slack_ns: int) -> None:
    """Set this thread's timer slack."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_TIMERSLACK)")


@contextmanager
def computing() -> Generator[None]:
    """Another Python thread never waits."""
    stop = threading.Event()

    def body() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def busy(frames: int, speed: Fraction) -> Released:
    """Play beside a thread that computes."""
    with computing():
        return play(frames, speed, DEFAULT_SLACK_NS)


WAYS: dict[str, Callable[[int, Fraction], Released]] = {
    "as is": lambda frames, speed: play(frames, speed, DEFAULT_SLACK_NS),
    "slack 1 us": lambda frames, speed: play(frames, speed, SMALL_SLACK_NS),
    "busy": busy,
}


def figures(values: Sequence[int]) -> dict[str, float]:
    """Median, p99 and the most, in microseconds."""
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return {
        "p50_us": round(statistics.median(ordered) / 1e3, 1),
        "p99_us": round(p99 / 1e3, 1),
        "max_us": round(ordered[-1] / 1e3, 1),
    }


def main() -> None:
    """Measure, and print one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--speed", type=Fraction, default=Fraction(1))
    options = parser.parse_args()
    found: dict[str, list[Released]] = {name: [] for name in WAYS}
    for _ in range(options.rounds):
        for name, way in WAYS.items():
            found[name].append(way(options.frames, options.speed))
    for name, rounds in found.items():
        late = [value for each in rounds for value in each.late_ns]
        spacing = [value for each in rounds for value in each.spacing_ns]
        assert min(late) >= 0
        line = {"way": name, "frames": len(late), "late": figures(late)}
        sys.stdout.write(json.dumps({**line, "spacing": figures(spacing)}) + "\n")


if __name__ == "__main__":
    main()
