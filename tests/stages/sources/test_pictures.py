"""Colour and shape of decoded video, against arithmetic in floating point."""

import gc
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.stages.convert import Convert, to_bgr
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.pictures import PictureMaker

PATCHES = np.array(
    [[200, 40, 40], [40, 180, 60], [50, 60, 200], [128, 128, 128], [235] * 3, [20] * 3]
)
"""Red, green, blue of six bars from left to right."""
LUMA = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
"""What red and blue weigh, by AVColorSpace (ITU-R BT.709, 601, 2020)."""


def yuv_of(
    rgb: NDArray[np.int_], space: int, *, full: bool, bits: int
) -> NDArray[np.float64]:
    """(..., 3) by the definition in ITU-T H.273, on the scale of ``bits``."""
    red, blue = LUMA[space]
    r, g, b = (rgb[..., k] / 255 for k in range(3))
    y = red * r + (1 - red - blue) * g + blue * b
    u, v = (b - y) / 2 / (1 - blue), (r - y) / 2 / (1 - red)
    scale, middle = float(1 << bits - 8), float(1 << bits - 1)
    if full:
        top = (1 << bits) - 1
        return np.stack([y * top, u * top + middle, v * top + middle], axis=-1)
    chroma = 224 * scale
    return np.stack(
        [(219 * y + 16) * scale, u * chroma + middle, v * chroma + middle], axis=-1
    )


def bars_frame(
    pix_fmt: str, space: int, *, full: bool, size: tuple[int, int] = (96, 64)
) -> VideoFrame:
    """The six bars, written plane by plane."""
    width, height = size
    frame = VideoFrame(width, height, pix_fmt)
    format_ = frame.format
    bits = format_.components[0].bits
    dtype = "u1" if bits == 8 else ">u2" if format_.is_big_endian else "<u2"
    for number, plane in enumerate(frame.planes[:3]):
        columns = np.arange(plane.width) * 6 // plane.width
        values = np.rint(yuv_of(PATCHES, space, full=full, bits=bits)[columns, number])
        row = np.zeros(plane.line_size // np.dtype(dtype).itemsize, dtype)
        row[: plane.width] = values
        plane.update(row.tobytes() * plane.height)
    for plane in frame.planes[3:]:
        plane.update(b"\x80" * plane.buffer_size)
    frame.colorspace, frame.color_range = space, 2 if full else 1
    return frame


def bars_of(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean red, green, blue of each bar, without its borders."""
    parts = np.array_split(image[..., ::-1], 6, axis=1)
    margin = image.shape[1] // 24
    return np.array([part[:, margin:-margin].mean(axis=(0, 1)) for part in parts])


@pytest.mark.parametrize(
    ("pix_fmt", "kind"),
    [
        ("yuv420p", PixelFormat.I420),
        ("yuv422p", PixelFormat.I422),
        ("yuv444p", PixelFormat.I444),
        ("yuv440p", PixelFormat.I444),
        ("yuv411p", PixelFormat.I444),
        ("yuv420p10le", PixelFormat.I420),
        ("yuv422p10le", PixelFormat.I422),
        ("yuv444p10le", PixelFormat.I444),
        ("yuv420p12le", PixelFormat.I420),
        ("yuv420p16be", PixelFormat.I420),
        ("yuva420p", PixelFormat.I420),
        ("yuva444p10le", PixelFormat.I444),
    ],
)
@pytest.mark.parametrize("space", [1, 5, 6, 9])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("net", [(96, 64), (48, 32)])
def test_colours_are_right_whatever_depth_chroma_matrix_and_range(
    pix_fmt: str, kind: PixelFormat, space: int, full: bool, net: tuple[int, int]
) -> None:
    picture = PictureMaker().picture(bars_frame(pix_fmt, space, full=full))
    assert picture.format is kind
    assert np.abs(bars_of(to_bgr(picture)) - PATCHES).max() <= 2
    assert np.abs(bars_of(network_input(picture, net)) - PATCHES).max() <= 2.5


def network_input(picture: Picture, size: tuple[int, int]) -> NDArray[np.uint8]:
    width, height = size
    ring = BufferRing(1, height, width)
    convert = Convert(ring, height, width, ColorOrder.BGR, Align.CENTER, (0, 0, 0))
    slot = convert.process(Frame("a", 0, 0, 1, picture=picture), 0).tensor
    assert slot is not None
    return slot.array.copy()


@pytest.mark.parametrize("pix_fmt", ["nv12", "nv16", "nv21", "yuyv422", "p010le"])
def test_formats_of_cameras_and_hardware_decoders_keep_their_colours(
    pix_fmt: str,
) -> None:
    planar = bars_frame(
        "yuv420p10le" if pix_fmt == "p010le" else "yuv422p", 1, full=False
    )
    frame = planar.reformat(format=pix_fmt, threads=1)
    frame.colorspace, frame.color_range = 1, 1
    picture = PictureMaker().picture(frame)
    assert np.abs(bars_of(to_bgr(picture)) - PATCHES).max() <= 3


@pytest.mark.parametrize(
    ("pix_fmt", "full", "wanted"),
    [
        ("gray", True, [16, 128, 235]),
        ("gray", False, [0, 130, 255]),
        ("gray10le", True, [16, 128, 235]),
        ("gray16le", True, [16, 128, 235]),
    ],
)
def test_grey_is_spread_over_the_whole_range(
    pix_fmt: str, full: bool, wanted: list[int]
) -> None:
    frame = VideoFrame(96, 32, pix_fmt)
    bits = frame.format.components[0].bits
    plane = frame.planes[0]
    row = np.repeat([16, 128, 235], 32).astype(np.int64)
    row = row * ((1 << bits) - 1) // 255
    padded = np.zeros(plane.line_size // (1 if bits == 8 else 2), np.int64)
    padded[:96] = row
    plane.update(padded.astype("u1" if bits == 8 else "<u2").tobytes() * 32)
    frame.color_range = 2 if full else 1
    picture = PictureMaker().picture(frame)
    assert picture.format is PixelFormat.GRAY
    seen = picture.planes[0][8, [8, 48, 88]].astype(int)
    assert np.abs(seen - wanted).max() <= 1


@pytest.mark.parametrize(
    "pix_fmt", ["rgba", "bgra", "argb", "rgb24", "gbrp", "rgb48le"]
)
def test_packed_colours_are_those_that_were_stored(pix_fmt: str) -> None:
    pixels = np.full((32, 48, 4), 128, np.uint8)  # half transparent
    pixels[..., :3] = (200, 90, 30)
    frame = VideoFrame.from_ndarray(pixels, "rgba").reformat(format=pix_fmt, threads=1)
    image = to_bgr(PictureMaker().picture(frame))
    assert np.abs(image.astype(int) - (30, 90, 200)).max() <= 1


@pytest.mark.parametrize(
    ("codec", "pix_fmt", "name", "kind"),
    [
        ("libx264", "yuv420p10le", "a.mp4", PixelFormat.I420),
        ("libx264", "yuv422p", "a.mkv", PixelFormat.I422),
        ("libx264", "yuv444p", "a.mp4", PixelFormat.I444),
        ("libx265", "yuv420p10le", "a.mp4", PixelFormat.I420),
        ("libx265", "yuv444p12le", "a.mkv", PixelFormat.I444),
        ("libvpx-vp9", "yuv422p", "a.webm", PixelFormat.I422),
        ("libsvtav1", "yuv420p10le", "a.mkv", PixelFormat.I420),
        ("mjpeg", "yuvj422p", "a.avi", PixelFormat.I422),
        ("prores", "yuv422p10le", "a.mov", PixelFormat.I422),
    ],
)
@pytest.mark.parametrize("space", [1, 6, 9])
def test_what_an_encoder_was_told_of_colours_is_respected(
    tmp_path: Path, codec: str, pix_fmt: str, name: str, kind: PixelFormat, space: int
) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg cannot encode with {codec}")
    if codec == "mjpeg" and space != 6:
        pytest.skip("JPEG always means BT.601")
    full = codec == "mjpeg"
    frame = bars_frame(pix_fmt, space, full=full, size=(192, 128))
    path = encoded(tmp_path / name, codec, frame)
    source = FileSource(path, str(path))
    assert source.next_arrival() is not None
    picture = source.decode(0)
    assert picture.format is kind
    assert np.abs(bars_of(to_bgr(picture)) - PATCHES).max() <= 4
    source.close()


def encoded(path: Path, codec: str, frame: VideoFrame) -> Path:
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        stream.width, stream.height = frame.width, frame.height
        stream.pix_fmt = frame.format.name
        context = stream.codec_context
        context.colorspace, context.color_range = frame.colorspace, frame.color_range
        stream.options = (
            {"crf": "4"} if codec != "mjpeg" else {"qmin": "1", "qmax": "1"}
        )
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def test_odd_sizes_of_every_chroma_end_where_the_picture_ends() -> None:
    for pix_fmt in ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le"):
        picture = PictureMaker().picture(
            bars_frame(pix_fmt, 6, full=False, size=(97, 63))
        )
        assert (picture.width, picture.height) == (97, 63)
        image = to_bgr(picture)
        assert image.shape == (63, 97, 3)
        assert np.abs(image[-1, -1].astype(int) - 20).max() <= 2


def test_pictures_that_nobody_refers_to_are_gone_at_once() -> None:
    class Witness:
        """Goes with the frame that it is attached to."""

    maker = PictureMaker()
    gone: list[weakref.ref[Witness]] = []
    gc.disable()
    try:
        for _ in range(3):
            frame = bars_frame("yuv420p", 6, full=False)
            witness = Witness()
            frame.opaque = witness
            gone.append(weakref.ref(witness))
            picture = maker.picture(frame)
            del frame, witness, picture
        # The first one's side data has been looked at.
        assert [each() is None for each in gone[1:]] == [True, True]
    finally:
        gc.enable()


def test_high_dynamic_range_and_interlacing_are_said() -> None:
    maker = PictureMaker()
    frame = bars_frame("yuv420p10le", 9, full=False)
    assert not maker.notes
    frame.color_trc = 16
    for _ in range(2):
        maker.picture(frame)
    assert maker.notes == ("high dynamic range (PQ) is shown as it is stored",)


def test_an_interlaced_frame_is_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "i.mkv"
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream("mpeg2video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.options = {"flags": "+ildct+ilme", "top": "1"}
        for k in range(3):
            frame = bars_frame("yuv420p", 6, full=False)
            frame.pts, frame.time_base = k, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    source = FileSource(path, str(path))
    assert source.next_arrival() is not None
    assert source.decode(0).height == 64
    said = "interlaced: both fields of a frame are shown together"
    assert said in source.warnings
    source.close()
