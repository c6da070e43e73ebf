"""Which packets can be left out, checked by leaving them out."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.bits import Bits
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.integrity import Integrity
from edgepipe.stages.sources.recording import Recording
from edgepipe.stages.sources.references import Disposability, parameter_sets

KINDS = [
    ("a.mp4", "libx264", {"x264-params": "bframes=2:b-adapt=0"}, 0.3),
    ("a.mkv", "libx264", {"x264-params": "bframes=3:b-adapt=0:b-pyramid=normal"}, 0.3),
    ("a.ts", "libx264", {"x264-params": "bframes=2:b-adapt=0"}, 0.3),
    ("a.mp4", "libx265", {"x265-params": "bframes=2:b-adapt=0:log-level=none"}, 0.3),
    ("a.ts", "libx265", {"x265-params": "bframes=3:b-adapt=0:log-level=none"}, 0.3),
    ("a.mkv", "libx265", {"x265-params": "temporal-layers=3:log-level=none"}, 0.2),
    ("a.ts", "mpeg2video", {"bf": "2"}, 0.3),
    ("a.mp4", "mpeg4", {"bf": "2"}, 0.3),
    ("a.mp4", "libx264", {"x264-params": "bframes=0"}, 0.0),
    ("a.webm", "libvpx-vp9", {"deadline": "realtime", "lag-in-frames": "0"}, 0.0),
]


def write(path: Path, codec: str, options: dict[str, str]) -> None:
    noise = np.random.default_rng(2).integers(0, 256, (120, 200), np.uint8)
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.codec_context.gop_size = 12
        if "bf" in options:
            stream.codec_context.max_b_frames = int(options["bf"])
        stream.options = options
        for k in range(30):
            frame = av.VideoFrame(96, 64, "yuv420p")
            rows = noise[k : k + 64, 2 * k : 2 * k + 96]
            plane = frame.planes[0]
            padded = np.zeros((64, plane.line_size), np.uint8)
            padded[:, :96] = rows
            plane.update(padded.tobytes())
            for chroma in frame.planes[1:]:
                chroma.update(bytes([128]) * chroma.buffer_size)
            frame.pts, frame.time_base = k, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


@pytest.mark.parametrize(("name", "codec", "options", "share"), KINDS)
def test_what_is_called_disposable_can_be_left_out(
    tmp_path: Path, name: str, codec: str, options: dict[str, str], share: float
) -> None:
    path = tmp_path / name
    write(path, codec, options)
    recording = Recording(path, 1)
    references = Disposability(recording.codec, recording.extradata)
    packets = list(recording.packets())
    disposable = [references.of(memoryview(packet)) for packet in packets]
    assert sum(disposable) >= share * len(packets)
    assert not any(
        d and p.is_keyframe for d, p in zip(disposable, packets, strict=True)
    )

    def luma(leave_out: bool) -> dict[int | None, bytes]:
        again = Recording(path, 1)
        seen: dict[int | None, bytes] = {}
        for packet, is_disposable in zip([*again.packets()], disposable, strict=True):
            if not (leave_out and is_disposable):
                seen |= {f.pts: bytes(f.planes[0]) for f in again.decode(packet)}
        return seen | {f.pts: bytes(f.planes[0]) for f in again.decode(None)}

    whole, rest = luma(leave_out=False), luma(leave_out=True)
    assert len(rest) == len(whole) - sum(disposable)
    assert all(whole[stamp] == pixels for stamp, pixels in rest.items())
    recording.close()


@pytest.mark.parametrize(("name", "codec", "options", "share"), KINDS[:7])
def test_frames_may_be_left_out_and_the_others_are_the_same(
    tmp_path: Path, name: str, codec: str, options: dict[str, str], share: float
) -> None:
    del share
    path = tmp_path / name
    write(path, codec, options)

    def played(step: int) -> dict[int, bytes]:
        source = FileSource(path, str(path))
        count = sum(hasattr(a, "index") for a in iter(source.next_arrival, None))
        assert count == 30
        found = {
            k: source.decode(k).planes[0].tobytes() for k in range(step - 1, 30, step)
        }
        source.close()
        return found

    every = played(1)
    for step in (2, 3, 7):
        assert all(every[k] == pixels for k, pixels in played(step).items())


@given(
    st.binary(max_size=200),
    st.binary(max_size=80),
    st.sampled_from(["h264", "hevc", "vp9", "mpeg4", "mpeg2video", "av1"]),
)
def test_any_bytes_can_be_looked_at(
    packet: bytes, extradata: bytes, codec: str
) -> None:
    for extra in (extradata, b"\1" + extradata):
        Disposability(codec, extra).of(packet)
        Integrity(codec, extra).fault(packet)
        list(parameter_sets(codec, extra))


@given(st.lists(st.integers(0, 70_000), max_size=12))
def test_numbers_of_the_code_are_read_as_they_were_written(numbers: list[int]) -> None:
    text = "".join("0" * (len(f"{n + 1:b}") - 1) + f"{n + 1:b}" for n in numbers)
    text += "0" * (-len(text) % 8)
    data = int(text or "0", 2).to_bytes(len(text) // 8, "big")
    bits = Bits(data)
    assert [bits.exp_golomb() for _ in numbers] == numbers


def test_a_signed_number_alternates() -> None:
    bits = Bits(bytes([0b1_010_011_0, 0b0100_0010, 0b1_0000000]))
    assert [bits.signed_exp_golomb() for _ in range(5)] == [0, 1, -1, 2, -2]
