"""What becomes of the pictures of damaged recordings, counted.

Every clip shows a texture that moves, so that each picture depends on those before and
differs from all others. A picture that is passed on as good and is none of the clean
ones is wrong. Bits are counted apart (``flip``): codecs without checksums cannot tell.

    python benchmarks/damage_fuzz.py --rounds 150 mpeg2video.ts
"""

import argparse
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from edgepipe.errors import EdgepipeError
from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.sources.file import FileSource

PACKET = 188
WIDTH, HEIGHT = 176, 144
_X264 = "scenecut=0:keyint=12:min-keyint=12"
_X265 = "log-level=none:keyint=12:min-keyint=12:scenecut=0"


class Kind(NamedTuple):
    """How a clip is coded."""

    encoder: str
    b_frames: int
    options: dict[str, str]
    containers: str


KINDS = {
    "mpeg2video": Kind("mpeg2video", 0, {}, "ts mkv mpg avi"),
    "mpeg2video-b": Kind("mpeg2video", 2, {}, "ts mkv mpg"),
    "mpeg1video-b": Kind("mpeg1video", 2, {}, "mpg"),
    "mpeg2video-fields": Kind(
        "mpeg2video", 2, {"flags": "+ildct+ilme", "alternate_scan": "1"}, "ts"
    ),
    "h264": Kind("libx264", 0, {"x264-params": _X264 + ":bframes=0"}, "ts mkv mp4 avi"),
    "h264-b": Kind("libx264", 2, {"x264-params": _X264 + ":bframes=3"}, "ts mkv mp4"),
    "h264-open": Kind(
        "libx264", 2, {"x264-params": _X264 + ":bframes=3:open-gop=1"}, "ts mkv"
    ),
    "hevc": Kind("libx265", 0, {"x265-params": _X265 + ":bframes=0"}, "ts mkv mp4"),
    "hevc-b": Kind("libx265", 2, {"x265-params": _X265 + ":bframes=3"}, "ts mkv mp4"),
    "mpeg4": Kind("mpeg4", 0, {}, "avi mkv mp4 ts"),
    "mpeg4-b": Kind("mpeg4", 2, {}, "mkv mp4 avi"),
    "vp8": Kind("libvpx", 0, {"b": "800k", "deadline": "realtime"}, "webm mkv"),
    "vp9": Kind(
        "libvpx-vp9", 0, {"b": "800k", "deadline": "realtime", "cpu-used": "8"},
        "webm mp4",
    ),
    "av1": Kind("libsvtav1", 0, {"preset": "11"}, "mkv mp4"),
    "mjpeg": Kind("mjpeg", 0, {}, "avi mkv"),
}  # fmt: skip


def texture() -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Large enough to be looked at through a window that moves."""
    noise = np.random.default_rng(1).integers(0, 256, (80, 100), np.uint8)
    return np.kron(noise, np.ones((4, 4), np.uint8)).astype(np.uint8)


def write(path: Path, kind: Kind, frames: int = 40) -> Path:
    """A clip of one key frame in twelve frames."""
    image = texture()
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(kind.encoder, rate=25)
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if kind.encoder == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = 12
        if kind.b_frames and not kind.encoder.startswith("libx"):
            stream.codec_context.max_b_frames = kind.b_frames
        stream.bit_rate = 1_000_000
        stream.options = kind.options
        for k in range(frames):
            frame = av.VideoFrame(WIDTH, HEIGHT, stream.pix_fmt)
            luma = image[k : k + HEIGHT, 2 * k : 2 * k + WIDTH]
            frame.planes[0].update(np.ascontiguousarray(luma).tobytes())
            for plane in frame.planes[1:]:
                plane.update(bytes([100 + k]) * plane.buffer_size)
            frame.pts, frame.time_base = k, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


# --- damage ---------------------------------------------------------------------------

Harm = Callable[[Path, Path, random.Random], None]


def _packets(clean: Path, to: Path, rng: random.Random) -> None:
    """Whole packets of a transport stream are missing."""
    data = bytearray(clean.read_bytes())
    count = len(data) // PACKET
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(count // 10, count)
        del data[at * PACKET : (at + rng.choice([1, 1, 2, 5, 16, 40])) * PACKET]
    to.write_bytes(data)


def _range(rng: random.Random, size: int) -> tuple[int, int]:
    begin = rng.randrange(size // 10, size)
    return begin, min(size, begin + rng.choice([1, 10, 200, 1000, 5000]))


def _hole(clean: Path, to: Path, rng: random.Random) -> None:
    """Bytes are missing anywhere."""
    data = bytearray(clean.read_bytes())
    for _ in range(rng.randint(1, 3)):
        begin, end = _range(rng, len(data))
        del data[begin:end]
    to.write_bytes(data)


def _zeros(clean: Path, to: Path, rng: random.Random) -> None:
    """Sectors that were never written."""
    data = bytearray(clean.read_bytes())
    begin, end = _range(rng, len(data))
    data[begin:end] = bytes(end - begin)
    to.write_bytes(data)


def _flip(clean: Path, to: Path, rng: random.Random) -> None:
    """One byte is another one."""
    data = bytearray(clean.read_bytes())
    data[rng.randrange(len(data) // 10, len(data))] ^= 1 << rng.randrange(8)
    to.write_bytes(data)


def _frames(clean: Path, to: Path, rng: random.Random) -> None:
    """Whole frames were lost before the container was written."""
    with av.open(str(clean)) as source, av.open(str(to), "w") as output:
        stream = source.streams.video[0]
        copy = output.add_stream_from_template(stream)
        packets = [p for p in source.demux(stream) if p.size]
        lost = {rng.randrange(1, len(packets)) for _ in range(rng.randint(1, 3))}
        for number, packet in enumerate(packets):
            if number not in lost:
                packet.stream = copy
                output.mux(packet)


HARMS: dict[str, Harm] = {
    "packets": _packets,
    "hole": _hole,
    "zeros": _zeros,
    "frames": _frames,
    "flip": _flip,
}


# --- what is shown --------------------------------------------------------------------


def pictures(path: Path) -> Iterator[int | None]:
    """A hash of every picture passed on as good, None for a damaged one."""
    source = FileSource(path, str(path))
    try:
        while (arrival := source.next_arrival()) is not None:
            if not isinstance(arrival, Arrival):
                continue
            try:
                picture = source.decode(arrival.index)
            except DamagedError:
                yield None
                continue
            yield hash(tuple(np.ascontiguousarray(p).tobytes() for p in picture.planes))
    finally:
        source.close()


def trial(clean: dict[int, int], path: Path) -> Counter[str]:
    """Counts of pictures; ``wrong`` are those that should not have been shown."""
    counts: Counter[str] = Counter()
    try:
        for found in pictures(path):
            counts[
                "damaged" if found is None else "clean" if found in clean else "wrong"
            ] += 1
    except EdgepipeError:
        counts["refused"] += 1
    counts["lost"] = max(0, len(clean) - counts.total())
    return counts


def main() -> None:
    """Print one line for each codec, container and kind of damage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="CODEC.CONTAINER; default: all")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--harms", nargs="*", default=list(HARMS))
    parser.add_argument("--keep", type=Path, help="where to put files shown wrongly")
    arguments = parser.parse_args()
    logging.getLogger("libav").setLevel(logging.CRITICAL)
    av.logging.set_level(None)
    print("| clip | damage | clips with wrong | wrong | damaged | lost | clean |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, kind in KINDS.items():
        for container in kind.containers.split():
            clip = f"{name}.{container}"
            if arguments.names and not {clip, name} & set(arguments.names):
                continue
            _report(clip, kind, arguments)


def _report(clip: str, kind: Kind, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clean_path = write(Path(folder, clip), kind)
        shown = list(pictures(clean_path))
        if None in shown:
            print(f"| {clip} | none | FALSE ALARM: {shown.count(None)} |", flush=True)
        clean = {each: n for n, each in enumerate(shown) if each is not None}
        for name in arguments.harms:
            if name == "packets" and not clip.endswith(".ts"):
                continue
            if name == "frames" and clip.startswith("av1"):
                continue  # its decoder has no encoder to make the copy's stream of
            counts: Counter[str] = Counter()
            clips = 0
            for number in range(arguments.rounds):
                path = Path(folder, f"{name}-{number}-{clip}")
                HARMS[name](clean_path, path, random.Random(number))
                found = trial(clean, path)
                clips += found["wrong"] > 0
                counts += found
                if found["wrong"] and arguments.keep is not None:
                    (arguments.keep / path.name).write_bytes(path.read_bytes())
                path.unlink()
            cells = [counts[each] for each in ("wrong", "damaged", "lost", "clean")]
            print(
                f"| {clip} | {name} | {clips} of {arguments.rounds} | "
                + " | ".join(map(str, cells))
                + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
