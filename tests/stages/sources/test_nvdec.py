"""NVIDIA's decoder gives what FFmpeg's gives, or says why it cannot.

Without a card a double stands in for the library; with one (``gpu``) the same tests run
on it.
"""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import Arrival, Source
from edgepipe.stages.sources.open import open_source

from . import nvdec_double

MakeClip = Callable[..., Path]


def card() -> str:
    """Why there is none to test on; empty if there is."""
    if importlib.util.find_spec("PyNvVideoCodec") is None:
        return "PyNvVideoCodec is not installed"
    try:
        importlib.import_module("PyNvVideoCodec").GetDecoderCaps()
    except Exception as error:  # noqa: BLE001 - a native library's: no driver, no card
        return str(error)
    return ""


@pytest.fixture(params=["double", pytest.param("card", marks=pytest.mark.gpu)])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What stands behind PyNvVideoCodec's names."""
    if request.param == "double":
        nvdec_double.install(monkeypatch)
    elif why := card():
        pytest.skip(why)
    return str(request.param)


def moving(path: Path, codec: str, pix_fmt: str, **options: Any) -> Path:
    """A clip in which every frame differs everywhere, with B-frames."""
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg cannot encode {codec}")
    width, height = options.pop("size", (160, 146))
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        extra = {"libx264": {"bf": "2", "g": "8", "sc_threshold": "0"}}
        hevc = "log-level=none:bframes=2:keyint=8"
        extra["libx265"] = {"x265-params": hevc}
        extra["libvpx-vp9"] = {"b": "400k", "deadline": "realtime"}
        stream.options = extra[codec]
        noise = np.random.default_rng(5).integers(0, 255, (height, width + 60, 3))
        for number in range(options.get("frames", 24)):
            image = noise[:, number : number + width].astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "bgr24")
            frame = frame.reformat(format=pix_fmt)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def pictures(source: Source, only: set[int] | None = None) -> dict[int, Picture]:
    found: dict[int, Picture] = {}
    while (arrival := source.next_arrival()) is not None and len(found) < 100:
        if isinstance(arrival, Arrival) and (only is None or arrival.index in only):
            found[arrival.index] = source.decode(arrival.index)
    return found


def same(ours: Picture, theirs: Picture) -> None:
    assert (ours.format, ours.width, ours.height) == (
        theirs.format,
        theirs.width,
        theirs.height,
    )
    assert (ours.matrix, ours.full_range) == (theirs.matrix, theirs.full_range)
    for a, b in zip(ours.planes, theirs.planes, strict=True):
        np.testing.assert_array_equal(a, b)


KINDS = [
    ("clip.mp4", "libx264", "yuv420p"),
    ("clip.mkv", "libx264", "yuvj420p"),
    ("clip.ts", "libx264", "yuv420p"),
    ("clip.h264", "libx264", "yuv420p"),
    ("clip.mp4", "libx265", "yuv420p"),
    ("clip.mp4", "libx265", "yuv420p10le"),
    ("clip.webm", "libvpx-vp9", "yuv420p"),
]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("name", "codec", "pix_fmt"), KINDS)
def test_every_picture_is_the_software_decoders_to_the_bit(
    name: str, codec: str, pix_fmt: str, tmp_path: Path
) -> None:
    clip = str(moving(tmp_path / name, codec, pix_fmt))
    hardware = open_source(clip, decoder="nvdec")
    assert hardware.info.decoder == "nvdec"
    ours, theirs = pictures(hardware), pictures(open_source(clip))
    assert ours.keys() == theirs.keys()
    assert len(ours) == 24
    for index, picture in ours.items():
        same(picture, theirs[index])


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("only", [{3, 4, 19}, {23}, {0, 9, 17}])
def test_frames_that_are_skipped_leave_no_trace_in_the_others(
    only: set[int], tmp_path: Path
) -> None:
    clip = str(moving(tmp_path / "clip.mp4", "libx264", "yuv420p"))
    ours = pictures(open_source(clip, decoder="nvdec"), only)
    theirs = pictures(open_source(clip), only)
    assert ours.keys() == only
    for index, picture in ours.items():
        same(picture, theirs[index])


@pytest.mark.usefixtures("library")
def test_a_loop_goes_on_with_the_same_decoder(tmp_path: Path) -> None:
    clip = str(moving(tmp_path / "clip.mp4", "libx264", "yuv420p", frames=10))
    made = nvdec_double.Decoder.made
    ours = pictures(open_source(clip, loop=True, decoder="nvdec"))
    theirs = pictures(open_source(clip, loop=True))
    assert len(ours) == 100
    for index, picture in ours.items():
        same(picture, theirs[index])
    assert nvdec_double.Decoder.made - made <= 1


@pytest.mark.usefixtures("library")
def test_pictures_stay_as_they_are_when_more_are_decoded(tmp_path: Path) -> None:
    clip = str(moving(tmp_path / "clip.mp4", "libx264", "yuv420p"))
    source = open_source(clip, decoder="nvdec")
    found = pictures(source)
    kept = {k: [plane.copy() for plane in p.planes] for k, p in found.items()}
    source.close()
    for index, planes in kept.items():
        for plane, copy in zip(found[index].planes, planes, strict=True):
            np.testing.assert_array_equal(plane, copy)


# --- what it cannot do ----------------------------------------------------------------


def refusal(clip: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_source(str(clip), decoder="nvdec")
    automatic = open_source(str(clip), decoder="auto")
    assert automatic.info.decoder == "software"
    (warning,) = [w for w in automatic.warnings if "decoded in software" in w]
    assert pictures(automatic)
    text = str(caught.value)
    assert warning.partition("nvdec: ")[2] in text
    return text


def test_a_codec_that_it_does_not_know_is_named(
    make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvdec_double.install(monkeypatch)
    assert "it does not decode mpeg4" in refusal(make_clip())


def test_a_format_other_than_420_is_named(
    make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvdec_double.install(monkeypatch)
    clip = make_clip(codec="libx264", pix_fmt="yuv444p")
    assert "4:2:0 only, this is yuv444p" in refusal(clip)


def test_bits_that_the_card_does_not_decode_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvdec_double.install(monkeypatch)
    clip = moving(tmp_path / "clip.mp4", "libx264", "yuv420p10le")
    assert "does not decode H264 with 10 bits" in refusal(clip)


def test_turned_and_odd_and_tiny_pictures_are_left_to_software(
    make_clip: MakeClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvdec_double.install(monkeypatch)
    turned = make_clip("turned.mp4", codec="libx264", rotation=90)
    assert "does not turn pictures" in refusal(turned)
    odd = moving(tmp_path / "odd.webm", "libvpx-vp9", "yuv420p", size=(161, 147))
    assert "even sizes, this is 161x147" in refusal(odd)
    tiny = make_clip("tiny.mp4", codec="libx264", size=(32, 32))
    assert "32x32 is outside 48x16 to 4096x4096" in refusal(tiny)


def test_a_machine_without_a_card_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_driver(**options: Any) -> dict[str, int]:
        raise RuntimeError("CUDA_ERROR_NO_DEVICE")

    nvdec_double.install(monkeypatch, GetDecoderCaps=no_driver)
    clip = moving(tmp_path / "clip.mp4", "libx264", "yuv420p")
    assert "there is no NVIDIA decoder: CUDA_ERROR_NO_DEVICE" in refusal(clip)


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> None:
        del name

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    clip = moving(tmp_path / "clip.mp4", "libx264", "yuv420p")
    assert "pip install 'edgepipe[nvidia]'" in refusal(clip)


def test_only_files_are_decoded_there(monkeypatch: pytest.MonkeyPatch) -> None:
    nvdec_double.install(monkeypatch)
    with pytest.raises(InputError, match="only video files"):
        open_source("synthetic:", decoder="nvdec")
    assert open_source("synthetic:", decoder="auto").info.decoder == "software"
