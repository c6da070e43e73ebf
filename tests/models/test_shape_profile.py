"""Shapes are checked before anything runs, and the message says what to ask for."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.shape_profile import ShapeProfile, require_profiles

YOLO = ShapeProfile("images", (1, 3, 320, 320), (1, 3, 640, 640), (4, 3, 640, 640))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((5, 3, 640, 640), "dimension 0 is 5 and must be 1 to 4"),
        ((1, 1, 640, 640), "dimension 1 is 1 and must be 3)"),
        ((1, 3, 736, 256), "2 is 736 and must be 320 to 640; dimension 3 is 256"),
        ((1, 3, 640), "4 dimensions, not 3"),
        ((), "asked for scalar"),
    ],
)
def test_what_is_out_of_range_is_named(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(EngineError) as caught:
        YOLO.require(shape)
    message = str(caught.value)
    assert said in message
    assert "input 'images'" in message
    assert "allowed is 1..4x3x320..640x320..640" in message


def test_recorded_requests_are_allowed_or_refused(cases: Path) -> None:
    folder = cases / "C06"
    profile = json.loads((folder / "profile.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())["ok"]
    limits = (tuple(profile[key]) for key in ("min", "opt", "max"))
    shapes = ShapeProfile(profile["input"], *limits)

    assert [not refusal(shapes, shape) for shape in profile["requests"]] == expected
    for shape, allowed in zip(profile["requests"], expected, strict=True):
        said = refusal(shapes, shape)
        wanted = ("'images'", "x".join(map(str, shape)), shapes.allowed())
        assert allowed or all(part in said for part in wanted)


def refusal(profile: ShapeProfile, shape: list[int]) -> str:
    """What is said about a shape; empty: nothing."""
    try:
        profile.require(shape)
    except EngineError as error:
        return str(error)
    return ""


@given(st.lists(st.tuples(*[st.integers(1, 50)] * 4), min_size=1, max_size=5))
def test_a_shape_is_allowed_if_each_size_lies_between(
    sizes: list[tuple[int, int, int, int]],
) -> None:
    low, usual, high = zip(*(sorted(each[:3]) for each in sizes), strict=True)
    profile = ShapeProfile("x", low, usual, high)
    shape = [each[3] for each in sizes]
    inside = all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True))
    assert inside == (not refusal(profile, shape))


@pytest.mark.parametrize(
    ("low", "usual", "high"),
    [
        ((1, 2), (1, 2), (1,)),
        ((2,), (1,), (3,)),
        ((1,), (4,), (3,)),
        ((0,), (1,), (1,)),
    ],
)
def test_a_profile_that_is_none_is_refused(
    low: tuple[int, ...], usual: tuple[int, ...], high: tuple[int, ...]
) -> None:
    with pytest.raises(ModelError, match="profile of 'x'"):
        ShapeProfile("x", low, usual, high)


def test_free_dimensions_without_a_profile_are_listed() -> None:
    inputs = {"images": ("batch", 3, None, 640), "size": ("batch", 2), "fixed": (1, 3)}
    with pytest.raises(ModelError) as caught:
        require_profiles(inputs, [])
    assert str(caught.value) == (
        "the model has free dimensions and no profile for them: 'images' "
        "batchx3x?x640: dimensions 0, 2; 'size' batchx2: dimension 0; say the least, "
        "usual and largest size of each"
    )
    require_profiles({"fixed": (1, 3)}, [])
    require_profiles({"images": ("batch", 3, None, 640)}, [YOLO_WIDE])


YOLO_WIDE = ShapeProfile("images", (1, 3, 320, 640), (1, 3, 640, 640), (4, 3, 640, 640))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (
            {"x": (None, 3, None, None)},
            "a profile for 'images': the model's inputs are",
        ),
        ({"images": (None, 3, None, 640)}, "does not fit the model's \\?x3x\\?x640"),
        ({"images": (None, 3, None)}, "does not fit the model's \\?x3x\\?"),
    ],
)
def test_a_profile_must_fit_its_model(
    inputs: dict[str, tuple[int | None, ...]], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        require_profiles(inputs, [YOLO])
