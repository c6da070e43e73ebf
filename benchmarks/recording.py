"""What recording costs, and how exactly a recording comes back.

A clip is recorded as two streams into one MCAP file, in rounds that take turns: its
packets as they came, and its pictures decoded and compressed as JPEG. Processor time of
the whole process for each frame. Then both streams are played from that file at their
own pace by real pumps, and the distances at which frames were handed on are compared
with those of the clip.

    python benchmarks/recording.py [CLIP] [--rounds 5] [--seconds 10]
"""

import argparse
import statistics
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer

from edgepipe.pipeline.pace import Epoch, Pace
from edgepipe.pipeline.packets import PacketSource
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.source import Arrival, Source, SourceEvent
from edgepipe.stages.native_threads import keep_opencv_single_threaded
from edgepipe.stages.recordings.kept_stream import keep
from edgepipe.stages.recordings.recorder import Input, Recorder
from edgepipe.stages.recordings.segments import Limits, Segments
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.robots import replayable
from edgepipe.telemetry.clock import MonotonicClock

STREAMS = ("left", "right")


class Decoded:
    """A source that keeps its packets to itself."""

    def __init__(self, source: Source) -> None:
        self.info, self.warnings = source.info, source.warnings
        self.next_arrival, self.decode = source.next_arrival, source.decode
        self.close, self._source = source.close, source

    @property
    def end_state(self) -> tuple[str, str]:
        """That of the source."""
        return self._source.end_state


def record(clip: str, path: Path, *, packets: bool) -> tuple[float, float]:
    """Processor time in milliseconds and bytes for each frame."""
    inputs: list[Input] = []
    for stream in STREAMS:
        source: Source = open_source(clip)
        if not packets:
            source = Decoded(source)
        kept = keep(source, stream, clock="media", raw=False)
        assert isinstance(source, PacketSource) is packets
        inputs.append(Input(stream, source, kept))
    channels = [each.kept.channel for each in inputs]
    segments = Segments(path, "", channels, {}, "benchmark", Limits())
    recorder = Recorder(inputs, segments, MonotonicClock())
    began = time.process_time()
    recorder.run(lambda: False)
    took_ms = (time.process_time() - began) * 1000
    for each in inputs:
        each.source.close()
    frames = sum(account.frames for account in recorder.accounts.values())
    return took_ms / frames, path.stat().st_size / frames


def play(path: Path, seconds: float) -> list[int]:
    """How far distances of frames were from those of their stamps, in nanoseconds."""
    clock, stop, epoch = MonotonicClock(), Event(), Epoch()
    sources = [open_source(part.uri) for part in replayable(str(path))]
    seen: dict[str, list[tuple[int, int]]] = {stream: [] for stream in STREAMS}

    def pump(stream: str, source: Source) -> Pump:
        def arrive(arrival: Arrival, _: int, __: tuple[SourceEvent, ...]) -> None:
            assert arrival.pts_ns is not None
            seen[stream].append((arrival.pts_ns, clock.now_ns()))

        return Pump(
            stream,
            source,
            Pace.REALTIME,
            clock,
            stop,
            arrive,
            lambda event: None,
            waits=False,
            epoch=epoch,
        )

    pumps = [pump(s, source) for s, source in zip(STREAMS, sources, strict=True)]
    threads = [Thread(target=each.run, args=(None,)) for each in pumps]
    Timer(seconds, stop.set).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for source in sources:
        source.close()
    return [
        abs((after - before) - (later - earlier))
        for stamps in seen.values()
        for (earlier, before), (later, after) in pairwise(stamps)
    ]


def main() -> None:
    """Record in turns, then play."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clip", nargs="?", default="sample:bikes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    keep_opencv_single_threaded()
    costs: dict[bool, list[float]] = {True: [], False: []}
    sizes: dict[bool, float] = {}
    with TemporaryDirectory() as folder:
        for number in range(args.rounds):
            for packets, found in costs.items():
                path = Path(folder, f"{packets}-{number}.mcap")
                cost_ms, sizes[packets] = record(args.clip, path, packets=packets)
                found.append(cost_ms)
        for packets, found in costs.items():
            words = "packets as they came" if packets else "decoded, then JPEG"
            low, high = min(found), max(found)
            print(
                f"{words:22} {statistics.median(found):6.3f} ms a frame"
                f" [{low:.3f}, {high:.3f}], {sizes[packets] / 1000:.1f} kB"
            )
        off = sorted(play(Path(folder, "True-0.mcap"), args.seconds))
    print(
        f"spacing of {len(off)} frames is off by p50 {off[len(off) // 2] / 1e6:.3f},"
        f" p99 {off[int(0.99 * len(off))] / 1e6:.3f}, most {off[-1] / 1e6:.3f} ms"
    )


if __name__ == "__main__":
    main()
