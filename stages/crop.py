"""A part of a picture as a picture of its own, without a copy."""

from dataclasses import replace
from math import ceil, floor

from edgepipe.pipeline.frame import Picture, PixelFormat

_SUBSAMPLED = (PixelFormat.I420, PixelFormat.NV12)


def crop(picture: Picture, xyxy: tuple[float, float, float, float]) -> Picture | None:
    """The part of a picture inside a box; None if nothing of it is.

    Args:
        picture: Its planes are viewed, not copied; they live as long as the result.
        xyxy: Box edges in pixels; what lies outside the picture is cut off. The result
            covers every pixel that the box touches, and in 4:2:0 begins at an even one,
            where a chroma sample begins.
    """
    step = 2 if picture.format in _SUBSAMPLED else 1
    left, top = max(0, floor(xyxy[0])), max(0, floor(xyxy[1]))
    right = min(picture.width, ceil(xyxy[2]))
    bottom = min(picture.height, ceil(xyxy[3]))
    if right <= left or bottom <= top:
        return None
    left, top = left // step * step, top // step * step
    rows, columns = slice(top, bottom), slice(left, right)
    # Half as many, one more where the last chroma sample serves a single pixel.
    half_rows = slice(top // 2, (bottom + 1) // 2)
    half_columns = slice(left // 2, (right + 1) // 2)
    first, *chroma = picture.planes
    planes = (
        first[rows, columns],
        *(plane[half_rows, half_columns] for plane in chroma),
    )
    return replace(picture, planes=planes, width=right - left, height=bottom - top)
