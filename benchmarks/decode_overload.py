"""A camera that is too fast for the decoder: how old results are, and how many come.

    python benchmarks/decode_overload.py [--fps 150] [--gops 30 250] [--duration 20s]
        [--source vtest.avi] [--crf 14] [--rounds 2]

1080p H.264 comes at 150 frames a second into a pipeline on all cores. Every clip is
played twice in turn: with a decoder that leaves frames out (``sheds``) and with one
that decodes whatever the frame that is asked for needs (``decodes all``), which is what
a leaky queue behind the decoder amounts to. Drift is the slope of a straight line
through the ages of the results.
"""

import argparse
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from decode_cost import images

from edgepipe import assemble
from edgepipe.configs import load
from edgepipe.configs.units import duration_ns
from edgepipe.stages.decode import Decode
from edgepipe.stages.sources.file import FileSource
from edgepipe.telemetry.records import FrameRecord

SIZE = (1920, 1080)
WARM_UP_NS = 2_000_000_000
LOOP_S = 4
"""Length of a clip; it is played again and again."""


def make_clip(path: Path, args: argparse.Namespace, gop: int) -> None:
    """Encode footage without B frames, as cameras do."""
    import cv2

    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=args.fps)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.codec_context.gop_size = gop
        stream.options = {
            "preset": "superfast",
            "tune": "zerolatency",
            "crf": str(args.crf),
            "x264-params": f"keyint={gop}:scenecut=0",
        }
        for number, image in enumerate(images(args.source, SIZE, args.fps * LOOP_S)):
            scaled = cv2.resize(image, SIZE, interpolation=cv2.INTER_CUBIC)
            frame = av.VideoFrame.from_ndarray(np.asarray(scaled, np.uint8), "bgr24")
            frame.pts, frame.time_base = number, Fraction(1, args.fps)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def decode_ms(path: Path) -> float:
    """CPU for one frame of the clip, every one decoded on one thread."""
    source = FileSource(path, str(path))
    begin = time.process_time()
    count = 0
    while (arrival := source.next_arrival()) is not None:
        if hasattr(arrival, "index"):
            source.decode(count)
            count += 1
    source.close()
    return (time.process_time() - begin) * 1e3 / count


def play(path: Path, args: argparse.Namespace, *, sheds: bool) -> str:
    """One run; its figures as a line of the table."""

    def make_decode(source: Any, now_ns: Any, **options: Any) -> Decode:
        return Decode(source, now_ns, sheds=sheds and options["sheds"])

    records: list[FrameRecord] = []
    source = f"{{uri: '{path}', loop: true}}"
    stream = f"{{id: front, deadline: {args.deadline}, source: {source}}}"
    config = load.read("default", [f"streams=[{stream}]", "sinks=[]"]).config
    before, assemble.Decode = assemble.Decode, make_decode  # type: ignore[misc, assignment]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            assemble.Pipeline(config, Path(folder), records.append) as pipeline,
        ):
            pipeline.warm_up()
            begin = time.process_time()
            pipeline.runtime.start(WARM_UP_NS, duration_ns(args.duration))
            pipeline.runtime.wait()
            cpu_s = time.process_time() - begin
            changes = sum(
                count
                for (_, kind), count in pipeline.runtime.source_events.items()
                if kind == "decoding"
            )
    finally:
        assemble.Decode = before  # type: ignore[misc]
    return figures([r for r in records if not r.warm_up], changes, cpu_s)


def figures(records: list[FrameRecord], changes: int, cpu_s: float) -> str:
    """One line."""
    shown = [r for r in records if r.delivered]
    first_ns, last_ns = records[0].capture_ns, records[-1].capture_ns
    seconds = (last_ns - first_ns) / 1e9
    ends_ns = np.array([first_ns, *sorted(r.done_ns for r in shown), last_ns])
    reasons = Counter(r.reason for r in records if r.reason)
    line = f"{len(shown) / seconds:.1f} /s"
    if len(shown) > 2:
        ages = np.array([r.latency_ns / 1e6 for r in shown])
        at = np.array([(r.capture_ns - first_ns) / 1e9 for r in shown])
        drift = float(np.polyfit(at, ages, 1)[0])
        p50, p99 = np.percentile(ages, (50, 99))
        line += f", age {p50:.0f} / {p99:.0f} / {ages.max():.0f} ms, drift {drift:+.2f}"
    line += f" ms/s, longest silence {np.diff(ends_ns).max() / 1e6:.0f} ms"
    words = ", ".join(
        f"{name} {n / len(records):.0%}" for name, n in reasons.most_common()
    )
    return f"{line}; {words}; {changes} level changes, {cpu_s / seconds:.2f} cores"


def main() -> None:
    """Make the clips, take turns, print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fps", type=int, default=150)
    parser.add_argument("--gops", type=int, nargs="+", default=[30, 250])
    parser.add_argument("--duration", default="20s")
    parser.add_argument("--deadline", default="100ms")
    parser.add_argument("--source", default="", help="footage to make the clips of")
    parser.add_argument("--crf", type=int, default=14, help="lower: slower to decode")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for gop in args.gops:
            path = Path(folder) / f"{gop}.mp4"
            make_clip(path, args, gop)
            size_mb = path.stat().st_size / 1e6
            print(
                f"GOP {gop}: {decode_ms(path):.1f} ms a frame to decode,"
                f" {8 * size_mb / LOOP_S:.0f} Mbit/s"
            )
            for number in range(args.rounds):
                for sheds in (True, False) if number % 2 else (False, True):
                    name = "sheds" if sheds else "decodes all"
                    print(f"  {name}: {play(path, args, sheds=sheds)}", flush=True)


if __name__ == "__main__":
    main()
