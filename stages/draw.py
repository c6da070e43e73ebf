"""Boxes, labels and a caption drawn onto an image."""

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED, Detections

Color = tuple[int, int, int]
"""Blue, green, red."""

MAX_DRAWN = 100
"""Objects drawn on one image, best first: keeps the cost of a crowd bounded."""
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_BLACK: Color = (0, 0, 0)
_WHITE: Color = (255, 255, 255)
_GREY: Color = (190, 190, 190)
_SHORT_SIDE = 480
"""Images with this short side (and smaller ones) get lines of one pixel."""


def _palette(n: int) -> tuple[Color, ...]:
    """Bright colours whose neighbours differ most: hues a golden section apart."""
    colors: list[Color] = []
    for k in range(n):
        rgb = colorsys.hsv_to_rgb(k * 0.618034 % 1.0, (0.85, 0.55)[k % 2], 1.0)
        red, green, blue = (round(255 * part) for part in rgb)
        colors.append((blue, green, red))
    return tuple(colors)


_COLORS = _palette(20)


def color_of(track_id: int) -> Color:
    """The colour of a track; grey for what is not tracked."""
    return _GREY if track_id == UNTRACKED else _COLORS[track_id % len(_COLORS)]


def label_of(class_names: Sequence[str], class_id: int) -> str:
    """The name of a class, or its number when it has none."""
    known = 0 <= class_id < len(class_names)
    return class_names[class_id] if known else f"class {class_id}"


def annotate(
    image: NDArray[np.uint8],
    detections: Detections | None,
    class_names: Sequence[str],
    caption: str,
) -> None:
    """Draw on a BGR image (height, width, 3), in place.

    Each box carries track id, label and score, and a dot for each keypoint, in the
    colour of its track; the best detections lie on top, :data:`MAX_DRAWN` of them are
    drawn. Detections whose coordinates are not finite are left out. ``caption`` stands
    in the bottom left corner, where few labels are.
    """
    thickness = max(1, round(min(image.shape[:2]) / _SHORT_SIDE))
    if detections is not None:
        for k in reversed(range(min(len(detections), MAX_DRAWN))):
            _draw_one(image, detections, k, class_names, thickness)
    write(image, caption, (0, image.shape[0]), _BLACK, thickness, above=True)


def _draw_one(
    image: NDArray[np.uint8],
    detections: Detections,
    k: int,
    class_names: Sequence[str],
    thickness: int,
) -> None:
    xyxy = detections.xyxy[k]
    if not np.isfinite(xyxy).all():
        return
    height, width = image.shape[:2]
    # Edges lie between pixels: the last pixel inside is one less than the edge. Far
    # outside is cut, because OpenCV counts in 32 bits.
    high = np.array([width, height, width, height]) + 8
    x1, y1, x2, y2 = (
        np.maximum(np.minimum(np.rint(xyxy), high), -8).astype(int).tolist()
    )
    track_id = int(detections.track_id[k])
    color = color_of(track_id)
    cv2.rectangle(image, (x1, y1), (x2 - 1, y2 - 1), color, thickness + 1)
    label = label_of(class_names, int(detections.class_id[k]))
    number = "" if track_id == UNTRACKED else f"{track_id} "
    said = [each.label(k) for each in detections.attributes]
    text = " ".join(
        [f"{number}{label} {detections.score[k]:.2f}", *(s for s in said if s)]
    )
    for points in detections.keypoints:
        _draw_points(image, points.xy[k], color, thickness)
    write(image, text, (x1 - thickness, y1), color, thickness, above=True)


def _draw_points(
    image: NDArray[np.uint8], xy: NDArray[np.float32], color: Color, thickness: int
) -> None:
    """A dot on each point (n, 2) inside the image."""
    height, width = image.shape[:2]
    inside = ((xy >= 0) & (xy < (width, height))).all(axis=1)
    for x, y in xy[inside].astype(int).tolist():
        cv2.circle(image, (x, y), 2 * thickness, _BLACK, -1)
        cv2.circle(image, (x, y), 2 * thickness - 1, color, -1)


def write(
    image: NDArray[np.uint8],
    text: str,
    corner: tuple[int, int],
    background: Color,
    thickness: int,
    *,
    above: bool = False,
) -> None:
    """Put a line of text on a filled strip, moved so that the image contains it.

    ``corner`` (x, y) is the strip's top left; with ``above`` its bottom left, and a
    strip that does not fit above goes below instead.
    """
    height, width = image.shape[:2]
    scale = 0.42 * thickness
    (wide, rise), below = cv2.getTextSize(text, _FONT, scale, thickness)
    margin = 2 * thickness
    wide += 2 * margin
    tall = rise + below + margin
    x, y = corner
    if above:
        y = y - tall if y >= tall else y + thickness
    x = max(0, min(x, width - wide))
    y = max(0, min(y, height - tall))
    cv2.rectangle(image, (x, y), (x + wide - 1, y + tall - 1), background, -1)
    blue, green, red = background
    bright = 0.114 * blue + 0.587 * green + 0.299 * red > 128
    ink = _BLACK if bright else _WHITE
    at = (x + margin, y + thickness + rise)
    cv2.putText(image, text, at, _FONT, scale, ink, thickness, cv2.LINE_AA)
