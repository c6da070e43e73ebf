"""Which way up a picture is to be shown: eight ways, by mirrors and quarter turns."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


class Orientation(NamedTuple):
    """What to do with stored rows and columns, in this order."""

    transpose: bool = False
    """Rows become columns."""
    flip_x: bool = False
    """Left and right change places."""
    flip_y: bool = False
    """Top and bottom change places."""


UPRIGHT = Orientation()
_EXIF = {
    2: Orientation(flip_x=True),
    3: Orientation(flip_x=True, flip_y=True),
    4: Orientation(flip_y=True),
    5: Orientation(transpose=True),
    6: Orientation(transpose=True, flip_x=True),
    7: Orientation(transpose=True, flip_x=True, flip_y=True),
    8: Orientation(transpose=True, flip_y=True),
}
_TURNS = {
    Orientation(flip_x=True, flip_y=True): cv2.ROTATE_180,
    Orientation(transpose=True, flip_x=True): cv2.ROTATE_90_CLOCKWISE,
    Orientation(transpose=True, flip_y=True): cv2.ROTATE_90_COUNTERCLOCKWISE,
}
"""What OpenCV does in one pass."""


def of_exif(number: int) -> Orientation:
    """The orientation that the EXIF tag 274 means; one that is not defined: upright."""
    return _EXIF.get(number, UPRIGHT)


def of_matrix(matrix: Sequence[int]) -> Orientation:
    """The orientation nearest to a display matrix (ISO 14496-12, nine numbers).

    A point (x, y) of the stored picture is shown at (a x + c y, b x + d y); a, b, c, d
    are numbers 0, 1, 3, 4. Angles in between are taken to the nearest quarter turn.
    """
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return Orientation(False, a < 0, d < 0)
    return Orientation(True, c < 0, b < 0)


def upright(plane: Image, orientation: Orientation) -> Image:
    """The plane as it is to be shown; itself if nothing is to be done."""
    if orientation == UPRIGHT:
        return plane
    turn = _TURNS.get(orientation)
    if turn is not None:
        return np.asarray(cv2.rotate(plane, turn), np.uint8)
    transpose, flip_x, flip_y = orientation
    if transpose:
        plane = np.asarray(cv2.transpose(plane), np.uint8)
    if flip_x or flip_y:
        # cv2: 1 mirrors left and right, 0 top and bottom, -1 both.
        way = -1 if flip_x and flip_y else int(flip_x)
        plane = np.asarray(cv2.flip(plane, way), np.uint8)
    return plane
