"""What a channel's metadata say of its packets, for the same pictures again."""

from collections.abc import Mapping

from av.video.codeccontext import VideoCodecContext

from edgepipe.stages.sources.orientation import Orientation

EXTRADATA = "edgepipe.extradata"
"""What the decoder needs before the first packet, in hexadecimal digits."""
CODEC = "edgepipe.codec"
"""FFmpeg's name of what decodes these images."""
COLOUR = "edgepipe.colour"
"""Range, matrix, primaries and transfer (ITU-T H.273) that the container had said."""
SIZE = "edgepipe.size"
"""Width and height that the decoder is told before the first packet."""
PIXELS = "edgepipe.pixels"
"""FFmpeg's name of the pixel format, the same."""
ORIENTATION = "edgepipe.orientation"
"""Whether rows become columns, left right, and up down, as three digits 0 or 1."""
COUNTED = "edgepipe.counted"
"""There, where only counting says in which order frames are shown, not the stamps."""

_COLOURS = ("color_range", "colorspace", "color_primaries", "color_trc")


def colours_of(context: VideoCodecContext) -> str:
    """The value of COLOUR."""
    return " ".join(str(int(getattr(context, name))) for name in _COLOURS)


def prepare(context: VideoCodecContext, metadata: Mapping[str, str]) -> None:
    """Tell a decoder what the container had said."""
    if size := metadata.get(SIZE, "").split():
        context.width, context.height = map(int, size)
    if pixels := metadata.get(PIXELS):
        context.pix_fmt = pixels
    if extradata := bytes.fromhex(metadata.get(EXTRADATA, "")):
        context.extradata = extradata
    said = metadata.get(COLOUR, "").split()
    for name, number in zip(_COLOURS, said, strict=False):
        setattr(context, name, int(number))


def digits_of(orientation: Orientation) -> str:
    """The value of ORIENTATION."""
    return "".join(str(int(turn)) for turn in orientation)


def orientation_in(metadata: Mapping[str, str]) -> Orientation:
    """The orientation that metadata say; upright if they do not."""
    digits = metadata.get(ORIENTATION, "000")
    return Orientation(*(digit == "1" for digit in digits[:3]))
