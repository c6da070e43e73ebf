"""Images of messages as pictures."""

import numpy as np

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.recordings.image_messages import RAW, ImageMessage, Layout
from edgepipe.stages.sources.raw_formats import RawFormat, raw_picture
from edgepipe.stages.sources.stills import MOST_PIXELS, decode_still

_FOURCC = {
    "rgb8": "RGB3",
    "bgr8": "BGR3",
    "8uc3": "BGR3",
    "rgba8": "XB24",
    "bgra8": "XR24",
    "8uc4": "XR24",
    "mono8": "GREY",
    "8uc1": "GREY",
    "mono16": "Y16 ",
    "16uc1": "Y16 ",
    "yuv422": "UYVY",
    "uyvy": "UYVY",
    "yuv422_yuy2": "YUYV",
    "yuyv": "YUYV",
    "nv12": "NV12",
    "nv21": "NV21",
    "i420": "YU12",
    "bayer_rggb8": "RGGB",
    "bayer_bggr8": "BA81",
    "bayer_gbrg8": "GBRG",
    "bayer_grbg8": "GRBG",
    "bayer_rggb16": "RG16",
    "bayer_bggr16": "BYR2",
    "bayer_gbrg16": "GB16",
    "bayer_grbg16": "GR16",
}
"""What ROS and Foxglove call an encoding, and what V4L2 calls it."""
_DEEP_COLOURS = {"rgb16": "rgb8", "bgr16": "bgr8", "16uc3": "bgr8"}


def picture_of(message: ImageMessage) -> Picture:
    """The picture of an image that stands alone.

    The planes are views of the message's data wherever the encoding allows it.

    Raises:
        DamagedError: It is cut off, or of an encoding that is no picture.
    """
    if message.format == RAW:
        assert message.layout is not None
        return _raw(message.data, message.layout)
    picture = decode_still(bytes(message.data))
    if picture is None:
        raise DamagedError("the data is no image that can be decoded")
    return picture


def _raw(data: memoryview, layout: Layout) -> Picture:
    name = layout.encoding.lower()
    if not 0 < layout.width * layout.height <= MOST_PIXELS:
        raise DamagedError(f"an image of {layout.width} x {layout.height} pixels")
    if layout.big_endian and "16" in name:
        data, layout = _low_byte_first(data), layout._replace(big_endian=False)
    if name in _DEEP_COLOURS:
        data, layout = _upper_bytes(data, layout, _DEEP_COLOURS[name])
        name = layout.encoding
    fourcc = _FOURCC.get(name)
    if fourcc is None:
        raise DamagedError(f"an image of the encoding {layout.encoding!r}")
    format_ = RawFormat(fourcc, layout.width, layout.height, layout.step)
    return raw_picture(data, format_, owner=data)


def _low_byte_first(data: memoryview) -> memoryview:
    pairs = np.frombuffer(data[: len(data) // 2 * 2], ">u2")
    return memoryview(pairs.astype("<u2").tobytes())


def _upper_bytes(
    data: memoryview, layout: Layout, encoding: str
) -> tuple[memoryview, Layout]:
    """Three numbers of 16 bits for each pixel as three of 8."""
    row = 3 * layout.width
    step = layout.step or 2 * row
    if step < 2 * row or len(data) < step * (layout.height - 1) + 2 * row:
        raise DamagedError(f"{len(data)} bytes are too few for {layout}")
    wide = np.ndarray((layout.height, row), "<u2", data, strides=(step, 2))
    narrow = ((wide.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return memoryview(narrow.tobytes()), Layout(
        layout.width, layout.height, encoding, row
    )
