"""How a walker, a cart and a drone look."""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

_SUB = 4
"""Coordinates are drawn in sixteenths of a pixel (a power of two for cv2)."""
_WHEEL = (20, 20, 20)

Color = Sequence[float]
"""Blue, green, red."""


class Pen:
    """Draws in an object's own coordinates: -0.5 .. 0.5 across and down its box.

    Lengths that are not coordinates (radii, thickness) are in pixels.
    """

    def __init__(
        self,
        image: NDArray[np.uint8],
        box: NDArray[np.float64],
        first: Color,
        second: Color,
    ) -> None:
        self._image = image
        self._x, self._y = (box[:2] + box[2:]) / 2
        self.width, self.height = (box[2:] - box[:2]).tolist()
        self.first, self.second = first, second

    def line(
        self,
        begin: tuple[float, float],
        end: tuple[float, float],
        color: Color,
        thickness: float,
    ) -> None:
        """A straight line."""
        ends = self._at(*begin), self._at(*end)
        thick = max(1, int(thickness))
        cv2.line(self._image, *ends, color, thick, cv2.LINE_AA, _SUB)

    def rectangle(
        self, corner: tuple[float, float], opposite: tuple[float, float], color: Color
    ) -> None:
        """A filled rectangle."""
        corners = self._at(*corner), self._at(*opposite)
        cv2.rectangle(self._image, *corners, color, -1, cv2.LINE_AA, _SUB)

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        """A filled circle."""
        size = _fixed(radius)
        cv2.circle(self._image, self._at(x, y), size, color, -1, cv2.LINE_AA, _SUB)

    def oval(
        self, x: float, y: float, radii: tuple[float, float], color: Color, line: int
    ) -> None:
        """An upright ellipse, drawn with a line or, with -1, filled."""
        axes = _fixed(radii[0]), _fixed(radii[1])
        center = self._at(x, y)
        cv2.ellipse(
            self._image, center, axes, 0, 0, 360, color, line, cv2.LINE_AA, _SUB
        )

    def _at(self, x: float, y: float) -> tuple[int, int]:
        # A pixel's centre is at whole numbers for cv2, at halves in box coordinates.
        return (
            _fixed(self._x + x * self.width - 0.5),
            _fixed(self._y + y * self.height - 0.5),
        )


def _fixed(value: float) -> int:
    return round(value * (1 << _SUB))


def walker(pen: Pen, phase: float) -> None:
    """Upright, with legs that swing with ``phase`` (radians)."""
    pen.disc(0, -0.38, 0.12 * pen.height, pen.second)
    pen.oval(0, -0.08, (0.42 * pen.width, 0.2 * pen.height), pen.first, -1)
    swing, thickness = 0.35 * float(np.sin(phase)), 0.25 * pen.width
    for foot in (swing, -swing):
        pen.line((0, 0.08), (foot, 0.5), pen.second, thickness)


def cart(pen: Pen, phase: float) -> None:
    """A box with a cabin on two wheels."""
    del phase
    pen.rectangle((-0.5, -0.2), (0.5, 0.3), pen.first)
    pen.rectangle((-0.3, -0.5), (0.25, -0.15), pen.second)
    for x in (-0.3, 0.3):
        pen.disc(x, 0.32, 0.18 * pen.height, _WHEEL)


def drone(pen: Pen, phase: float) -> None:
    """A cross with a rotor at each end."""
    del phase
    thickness = 0.12 * pen.height
    for down in (0.3, -0.3):
        pen.line((-0.4, -down), (0.4, down), pen.first, thickness)
    radii, line = (0.16 * pen.width, 0.18 * pen.height), max(1, int(thickness) // 2)
    for x in (-0.34, 0.34):
        for y in (-0.32, 0.32):
            pen.oval(x, y, radii, pen.second, line)
    pen.disc(0, 0, 0.18 * pen.height, pen.first)


DRAW: Sequence[Callable[[Pen, float], None]] = (walker, cart, drone)
"""By class id."""
