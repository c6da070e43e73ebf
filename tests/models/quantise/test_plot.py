"""The trade-off, drawn."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.models.quantise.plot import HEIGHT, WIDTH, trade_off_svg

SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.lists(
    st.tuples(st.integers(0, 200), st.floats(-5, 100)), min_size=1, max_size=12
)


@given(POINTS)
def test_every_point_lies_inside_and_says_what_it_is(
    points: list[tuple[int, float]],
) -> None:
    drawn = ElementTree.fromstring(trade_off_svg("a <net> & co", points, 200))
    circles = drawn.findall(f"{SVG}circle")
    assert len(circles) == len(points)
    for circle, (kept, drop) in zip(circles, points, strict=True):
        assert 0 < float(circle.attrib["cx"]) < WIDTH
        assert 0 < float(circle.attrib["cy"]) < HEIGHT
        title = circle.find(f"{SVG}title")
        assert title is not None
        assert title.text == f"{kept} layers in FP32: {drop:.2f} points"


@given(st.floats(1, 100))
def test_the_grid_has_a_few_lines_at_round_numbers(highest: float) -> None:
    drawn = trade_off_svg("net", [(0, highest), (1, 0.0)], 4)
    labels = re.findall(r'text-anchor="end">([^<]+)<', drawn)
    steps = [float(label) for label in labels]
    assert 2 <= len(steps) <= 6
    assert steps[0] == 0
    assert all(step <= highest * 1.001 for step in steps)
    assert f"{steps[1]:g}".strip("0.") in ("1", "2", "5")
