"""A part of a picture as a picture of its own, without a copy."""

from dataclasses import replace
from math import ceil, floor
from typing import NamedTuple

from edgepipe.pipeline.frame import Picture
from edgepipe.stages.planes import CHROMA_STEPS


class Part(NamedTuple):
    """A part of a picture, and where its first pixel lies in the whole."""

    picture: Picture
    left: int
    top: int


def crop(picture: Picture, xyxy: tuple[float, float, float, float]) -> Part | None:
    """The part of a picture inside a box; None if nothing of it is.

    Args:
        picture: Its planes are viewed, not copied; they live as long as the result.
        xyxy: Box edges in pixels; what lies outside the picture is cut off. The result
            covers every pixel that the box touches, and begins where a chroma sample
            begins, which in 4:2:0 is an even pixel.
    """
    across, down = CHROMA_STEPS.get(picture.format, (1, 1))
    # Planes of a JPEG that was decoded smaller: each of their pixels is several.
    scale = picture.height // picture.planes[0].shape[0]
    if scale > 1:
        return _from_reduced(picture, xyxy, scale)
    left, top = max(0, floor(xyxy[0])), max(0, floor(xyxy[1]))
    right = min(picture.width, ceil(xyxy[2]))
    bottom = min(picture.height, ceil(xyxy[3]))
    if right <= left or bottom <= top:
        return None
    left, top = left // across * across, top // down * down
    rows, columns = slice(top, bottom), slice(left, right)
    # One more where the last chroma sample serves fewer pixels.
    chroma_rows = slice(top // down, -(-bottom // down))
    chroma_columns = slice(left // across, -(-right // across))
    first, *chroma = picture.planes
    planes = (
        first[rows, columns],
        *(plane[chroma_rows, chroma_columns] for plane in chroma),
    )
    part = replace(picture, planes=planes, width=right - left, height=bottom - top)
    return Part(part, left, top)


def _from_reduced(
    picture: Picture, xyxy: tuple[float, float, float, float], scale: int
) -> Part | None:
    """The same where each pixel of the only plane is ``scale`` x ``scale`` ones."""
    plane = picture.planes[0]
    small = replace(picture, width=plane.shape[1], height=plane.shape[0])
    x1, y1, x2, y2 = (edge / scale for edge in xyxy)
    part = crop(small, (x1, y1, x2, y2))
    if part is None:
        return None
    width, height = part.picture.width * scale, part.picture.height * scale
    whole = replace(part.picture, width=width, height=height)
    return Part(whole, part.left * scale, part.top * scale)
