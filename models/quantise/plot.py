"""The trade-off between accuracy and layers in FP32, drawn as SVG."""

from collections.abc import Sequence
from html import escape
from math import floor, log2, log10

WIDTH, HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 40, 52
_GRID_LINES = 5


def trade_off_svg(model: str, points: Sequence[tuple[int, float]], layers: int) -> str:
    """A self-contained SVG document.

    The number of layers is on a logarithmic axis (0 has its place at its beginning),
    because what matters happens among the first few.

    Args:
        model: Name for the title.
        points: Layers in FP32, and the drop in points with these.
        layers: How many there are in all.
    """
    highest = max(1.0, *(drop for _, drop in points))
    placed = [(_x(kept, layers), _y(drop, highest)) for kept, drop in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    marks = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#06c"><title>{kept} layers in'
        f" FP32: {drop:.2f} points</title></circle>"
        + _text(x, HEIGHT - _BOTTOM + 18, "middle", str(kept))
        for (kept, drop), (x, y) in zip(points, placed, strict=True)
    ]
    title = f"{model}: what INT8 costs (points of AP against FP32)"
    axis = f"layers in FP32 of {layers}, the most sensitive first"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#444">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 22, "start", title),
        *_grid(highest),
        f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>',
        *marks,
        _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, "middle", axis),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _grid(highest: float) -> list[str]:
    """Horizontal lines with what they stand for, at round numbers."""
    drawn: list[str] = []
    step = _round_step(highest / (_GRID_LINES - 1))
    for number in range(int(highest / step) + 1):
        y = _y(number * step, highest)
        drawn.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            ' stroke="#ddd"/>'
        )
        drawn.append(_text(_LEFT - 8, y + 4, "end", f"{number * step:g}"))
    return drawn


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least so much."""
    power = 10.0 ** floor(log10(least))
    return next(
        factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999
    )


def _x(kept: int, layers: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * log2(kept + 1) / log2(layers + 1)


def _y(drop: float, highest: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * max(drop, 0.0) / highest


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
