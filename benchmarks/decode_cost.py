"""CPU for one delivered frame, from packets to the network's input, against OpenCV.

    python benchmarks/decode_cost.py [--rounds 5] [--frames 60] [--source vtest.avi]
        [--net 640 640]

The plain way is ``cv2.VideoCapture``, ``cv2.resize`` and ``cv2.dnn.blobFromImage``; the
other one is edgepipe's file source and its stage ``convert``. Both read the same clips,
made on the spot from ``--source`` (or a drawn scene), on one thread, in turn and in
alternating order. CPU is that of the whole process; page faults are minor ones; what
Python allocated for one frame is the peak in ``tracemalloc``.
"""

import argparse
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source import Arrival
from edgepipe.stages.convert import Convert
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.jpeg import is_available
from edgepipe.stages.sources.scene import Scene

Image = NDArray[np.uint8]
NET = [320, 256]
"""Width and height of the network's input; of the model that ships unless changed."""
SIZES = ((1280, 720), (1920, 1080))
WARM = 5
"""Frames that are not counted."""


class Cost(NamedTuple):
    """Of one way through one clip."""

    cpu_ms: float
    faults: float
    """Minor page faults a frame."""


def least(width: int, height: int) -> tuple[int, int]:
    """What the network's input needs of a picture."""
    place = letterbox_for(width, height, NET[0], NET[1], Align.CENTER)
    return place.width, place.height


def images(source: str, size: tuple[int, int], count: int) -> Iterator[Image]:
    """Frames of footage, or of a scene with some noise."""
    if source:
        with av.open(source) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number == count:
                    return
                yield np.asarray(frame.to_ndarray(format="bgr24", threads=1))[:, :]
        return
    scene = Scene(1, *size, 12)
    noise = np.random.default_rng(0).integers(0, 12, (*size[::-1], 3), np.uint8)
    for number in range(count):
        yield cv2.add(scene.image(number), np.roll(noise, 97 * number, 1))  # type: ignore[misc]


def make_clip(
    path: Path, codec: str, source: str, size: tuple[int, int], n: int
) -> None:
    """Encode so many frames at the bit rates of usual cameras."""
    width, height = size
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=30)
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj422p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = 30
        if codec == "mjpeg":
            stream.options = {"qmin": "3", "qmax": "3"}
        else:
            stream.codec_context.bit_rate = 3_000_000 * width * height // 921_600
            stream.options = {"preset": "veryfast", "tune": "zerolatency"}
        for number, image in enumerate(images(source, size, n)):
            scaled = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)
            frame = av.VideoFrame.from_ndarray(np.asarray(scaled, np.uint8), "bgr24")
            frame.pts, frame.time_base = number, Fraction(1, 30)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def plain(path: Path) -> Iterator[None]:
    """What most programs do."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    while True:
        good, image = capture.read()
        if not good:
            capture.release()
            return
        resized = cv2.resize(image, (NET[0], NET[1]))
        cv2.dnn.blobFromImage(resized, 1 / 255, swapRB=True)
        yield


def ours(path: Path, *, reduced: bool) -> Iterator[None]:
    """The file source and the stage ``convert``."""
    source = FileSource(path, str(path))
    if reduced:
        source.reduce_to(least)
    width, height = NET
    ring = BufferRing(2, height, width)
    convert = Convert(ring, height, width, ColorOrder.BGR, Align.CENTER, (0, 0, 0))
    while (arrival := source.next_arrival()) is not None:
        if not isinstance(arrival, Arrival):
            continue
        picture = source.decode(arrival.index)
        frame = Frame("a", arrival.index, 0, 1, picture=picture)
        slot = convert.process(frame, 0).tensor
        assert slot is not None
        slot.give_back()
        yield
    source.close()


def cost(way: Iterator[None]) -> Cost:
    """Play a clip and measure from frame ``WARM`` on."""
    for _ in range(WARM):
        next(way)
    begin, before = time.process_time(), _faults()
    frames = sum(1 for _ in way)
    return Cost(
        (time.process_time() - begin) * 1e3 / frames, (_faults() - before) / frames
    )


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def peak_kib(way: Iterator[None]) -> float:
    """Most memory that Python allocated at once within one frame."""
    for _ in range(WARM):
        next(way)
    tracemalloc.start()
    highest = 0
    for _ in range(10):
        tracemalloc.clear_traces()
        base = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        next(way)
        highest = max(highest, tracemalloc.get_traced_memory()[1] - base)
    tracemalloc.stop()
    return highest / 1024


def main() -> None:
    """Make the clips, take turns, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--source", default="", help="footage to make the clips of")
    parser.add_argument("--net", type=int, nargs=2, default=NET, help="width, height")
    args = parser.parse_args()
    NET[:] = args.net
    cv2.setNumThreads(1)
    ways: dict[str, Callable[[Path], Iterator[None]]] = {
        "OpenCV": plain,
        "edgepipe": lambda path: ours(path, reduced=False),
    }
    print("clip, way: CPU ms a frame [of each round], ratio; page faults; peak KiB")
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("libx264", "mjpeg"):
            for size in SIZES:
                path = (
                    Path(folder) / f"{size[1]}.{'avi' if codec == 'mjpeg' else 'mp4'}"
                )
                make_clip(path, codec, args.source, size, args.frames)
                here = dict(ways)
                if codec == "mjpeg" and is_available():
                    here["edgepipe, reduced"] = lambda path: ours(path, reduced=True)
                compare(f"{size[1]}p {codec}", path, here, args.rounds)


def compare(
    name: str,
    path: Path,
    ways: dict[str, Callable[[Path], Iterator[None]]],
    rounds: int,
) -> None:
    """All ways through one clip, in turn."""
    found: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 else list(ways)[::-1]:
            found[way].append(cost(ways[way](path)))
    base = np.median([c.cpu_ms for c in found["OpenCV"]])
    for way, costs in found.items():
        middle = np.median([c.cpu_ms for c in costs])
        faults = np.median([c.faults for c in costs])
        low, high = min(c.cpu_ms for c in costs), max(c.cpu_ms for c in costs)
        print(
            f"{name}, {way}: {middle:.2f} [{low:.2f}, {high:.2f}], {middle / base:.2f};"
            f" {faults:.1f}; {peak_kib(ways[way](path)):.0f}"
        )


if __name__ == "__main__":
    main()
