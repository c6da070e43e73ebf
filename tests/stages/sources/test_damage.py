"""Packets that are lost, cut or overwritten never give a picture that looks good."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest
from av.packet import Packet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.sources.decoder import Decoder, Key
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.recording import Recording, VideoPacket

FRAMES, GOP = 36, 12
KINDS = {
    "h264": ("libx264", {"bf": "0"}),
    "h264 with B frames": ("libx264", {"bf": "2"}),
    "h264 in slices": ("libx264", {"bf": "0", "slices": "4"}),
    "h264 of one reference": ("libx264", {"bf": "0", "tune": "zerolatency"}),
    "h264 with a pyramid": ("libx264", {"bf": "3", "b-pyramid": "normal"}),
    "hevc": ("libx265", {"x265-params": "log-level=none:bframes=0:open-gop=0"}),
    "hevc with B frames": ("libx265", {"x265-params": "log-level=none:bframes=2"}),
}
Image = NDArray[np.uint8]


def texture() -> Image:
    noise = np.random.default_rng(1).integers(0, 256, (140, 220), np.uint8)
    return np.kron(noise[:35, :55], np.ones((4, 4), np.uint8)).astype(np.uint8)


def write(path: Path, codec: str, options: dict[str, str]) -> Path:
    """A texture that moves, so that every frame depends on the ones before."""
    image = texture()
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.codec_context.gop_size = GOP
        extra = {"crf": "24", "preset": "veryfast", "x264-params": "scenecut=0"}
        stream.options = {**extra, **options}
        for k in range(FRAMES):
            frame = av.VideoFrame(128, 96, "yuv420p")
            luma = np.ascontiguousarray(image[k : k + 96, 2 * k : 2 * k + 128])
            frame.planes[0].update(luma.tobytes())
            for plane in frame.planes[1:]:
                plane.update(bytes([100 + k]) * plane.buffer_size)
            frame.pts, frame.time_base = k, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


class Clip:
    """A recording's packets, and what each frame looks like when none is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        recording = Recording(path, 1)
        self.packets = [
            (bytes(p), cast(int, p.pts), cast(int, p.dts), p.is_keyframe)
            for p in recording.packets()
        ]
        recording.close()
        self.stamps = sorted(pts for _, pts, *_ in self.packets)
        self.clean = self.play([data for data, *_ in self.packets])
        assert all(image is not None for image in self.clean)

    def play(self, contents: list[bytes | None]) -> list[Image | None]:
        """Each frame's luma, None where it is said to be damaged.

        ``contents`` has the bytes of each packet; None: the packet is lost.
        """
        recording = Recording(self.path, 1)
        decoder = Decoder(lambda: False)
        for (_, pts, dts, is_key), data in zip(self.packets, contents, strict=True):
            if data is None:
                continue
            packet = cast(VideoPacket, Packet(data))
            packet.pts, packet.dts, packet.is_keyframe = pts, dts, is_key
            packet.time_base = recording.time_base
            decoder.offer(recording, Key(0, pts), packet)
        decoder.offer(recording, Key(0, self.stamps[-1] + 1), None)
        for index, stamp in enumerate(self.stamps):
            decoder.announce(index, Key(0, stamp))
        found: list[Image | None] = []
        for index in range(len(self.stamps)):
            try:
                frame = decoder.frame(index)
                plane = frame.planes[0]
                memory = np.frombuffer(memoryview(plane), np.uint8)
                found.append(memory.reshape(-1, plane.line_size)[:, :128].copy())
            except DamagedError:  # noqa: PERF203 - each picture on its own
                found.append(None)
        recording.close()
        return found


@pytest.fixture(scope="module", params=KINDS)
def clip(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Clip:
    folder = tmp_path_factory.mktemp("clips")
    codec, options = KINDS[request.param]
    return Clip(write(folder / "a.mp4", codec, options))


def lose(data: bytes, at: int) -> None:
    del data, at


def cut(data: bytes, at: int) -> bytes:
    return data[: 1 + at % (len(data) - 1)]


def zero(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]


@pytest.mark.parametrize("harm", [lose, cut, zero])
@given(data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_is_shown_is_what_a_clean_recording_shows(
    clip: Clip, harm: Callable[[bytes, int], bytes | None], data: st.DataObject
) -> None:
    contents: list[bytes | None] = [each for each, *_ in clip.packets]
    hit = data.draw(st.sets(st.integers(0, FRAMES - 1), min_size=1, max_size=3))
    for number in hit:
        at = data.draw(st.integers(0, 5000))
        contents[number] = harm(clip.packets[number][0], at)
    found = clip.play(contents)
    for number, (image, clean) in enumerate(zip(found, clip.clean, strict=True)):
        assert clean is not None
        assert image is None or np.array_equal(image, clean), number


def test_after_damage_pictures_are_good_from_the_next_key_frame_on(clip: Clip) -> None:
    contents: list[bytes | None] = [each for each, *_ in clip.packets]
    keys = [n for n, packet in enumerate(clip.packets) if packet[3]]
    assert len(keys) == 3
    contents[keys[1] + 1] = None
    found = clip.play(contents)
    again = clip.stamps.index(clip.packets[keys[2]][1])
    assert all(image is not None for image in found[again:])
    before = clip.stamps.index(clip.packets[keys[1]][1])
    assert all(image is not None for image in found[: before - 2])
    assert any(image is None for image in found)


def pictures(path: Path) -> list[Image | None]:
    """Each frame's luma as a source gives it, None where it is said to be damaged."""
    source = FileSource(path, "clip")
    found: list[Image | None] = []
    while (arrival := source.next_arrival()) is not None:
        if isinstance(arrival, Arrival):
            try:
                found.append(source.decode(arrival.index).planes[0].copy())
            except DamagedError:
                found.append(None)
    return found


@pytest.mark.parametrize("b_frames", [0, 2, 3])
@pytest.mark.parametrize("codec", ["mpeg4", "mpeg2video", "libx264"])
def test_frames_that_refer_to_damage_are_not_shown_before_it_is_known(
    tmp_path: Path, codec: str, b_frames: int
) -> None:
    """Most decoders tell of damage with the frame: after those that refer to it."""
    options = {"bf": str(b_frames)}
    if codec != "libx264":
        options |= {"crf": "0", "preset": "", "qmin": "4", "qmax": "4"}
    path = write(tmp_path / "a.mkv", codec, options)
    clean, content = pictures(path), path.read_bytes()
    assert all(image is not None for image in clean)
    recording = Recording(path, 1)
    packets = [bytes(packet) for packet in recording.packets()]
    recording.close()
    for packet in packets:
        at = content.index(packet) + len(packet) // 2
        end = content.index(packet) + len(packet)
        path.write_bytes(content[:at] + bytes(end - at) + content[end:])
        found = pictures(path)
        assert len(found) == FRAMES
        for image, right in zip(found, clean, strict=True):
            assert right is not None
            assert image is None or np.array_equal(image, right)
