import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import PixelFormat
from edgepipe.pipeline.source import Arrival
from edgepipe.stages.sources.scene import Scene
from edgepipe.stages.sources.synthetic import (
    SyntheticOptions,
    SyntheticSource,
    parse_options,
)


def test_the_same_uri_draws_the_same_frames_in_any_order() -> None:
    first, second = (SyntheticSource("synthetic:?seed=7") for _ in range(2))
    forwards = [first.decode(k).planes[0] for k in (0, 3, 200)]
    backwards = [second.decode(k).planes[0] for k in (200, 3, 0)]
    for one, other in zip(forwards, reversed(backwards), strict=True):
        assert np.array_equal(one, other)


def test_seeds_differ_and_objects_move() -> None:
    one, other = (
        SyntheticSource("synthetic:?seed=1"),
        SyntheticSource("synthetic:?seed=2"),
    )
    assert not np.array_equal(one.decode(0).planes[0], other.decode(0).planes[0])
    assert not np.array_equal(one.decode(0).planes[0], one.decode(1).planes[0])


def test_it_ends_after_the_frames_asked_for() -> None:
    source = SyntheticSource("synthetic:?frames=2&fps=10")
    found = [source.next_arrival() for _ in range(3)]
    assert found == [Arrival(0, 0), Arrival(1, 100_000_000), None]
    assert source.end_state == ("ended", "")


def test_a_loop_never_ends() -> None:
    source = SyntheticSource("synthetic:?frames=2", loop=True)
    assert [a.index for _ in range(5) if (a := source.next_arrival())] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_options_come_from_the_uri() -> None:
    uri = "synthetic:?seed=3&width=640&height=360&fps=12.5&objects=9&frames=7"
    assert parse_options(uri) == SyntheticOptions(3, 640, 360, 12.5, 9, 7)
    assert parse_options("synthetic:") == parse_options("synthetic://")
    assert parse_options("synthetic:", fps=5).fps == 5
    picture = SyntheticSource("synthetic:?width=101&height=67").decode(0)
    assert picture.format is PixelFormat.BGR
    assert picture.planes[0].shape == (67, 101, 3)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("synthetic:?sed=1", "unknown key 'sed' (known: seed, width"),
        ("synthetic:?seed=1&seed=2", "seed is given twice"),
        ("synthetic:?seed=one", "seed: expected a whole number, got 'one'"),
        ("synthetic:?fps=nan", "fps: nan is not within 0.001 .. 1000"),
        ("synthetic:?width=1", "width: 1 is not within 32 .. 8192"),
        ("synthetic:?objects=", "objects: expected a whole number, got ''"),
        ("synthetic:?seed", "bad query field"),
        ("synthetic:seed=1", "expected synthetic:?key=value, got 'seed=1'"),
    ],
)
def test_a_wrong_option_is_named(uri: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_options(uri)
    assert says in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(0, 10**6),
    st.integers(32, 700),
    st.integers(32, 500),
)
def test_objects_stay_inside_and_keep_their_size(
    seed: int, index: int, width: int, height: int
) -> None:
    scene = Scene(seed, width, height, objects=6)
    boxes = scene.boxes(index)
    assert (boxes[:, :2] >= -1e-6).all()
    assert (boxes[:, 2:] <= np.array([width, height]) + 1e-6).all()
    before = scene.boxes(0)
    assert np.allclose(boxes[:, 2:] - boxes[:, :2], before[:, 2:] - before[:, :2])


def test_motion_has_no_jumps() -> None:
    scene = Scene(5, 320, 192, objects=20)
    steps = [scene.boxes(k + 1) - scene.boxes(k) for k in range(500)]
    assert np.abs(steps).max() <= 4.0


@pytest.mark.parametrize("seed", range(6))
def test_boxes_are_where_something_was_drawn(seed: int) -> None:
    scene = Scene(seed, 320, 192, objects=1)
    for index in (0, 50, 111):
        changed = (scene.image(index) != scene.background).any(axis=2)
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        drawn = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        # Feet and rotors are lines whose thickness reaches over the edge a little.
        assert np.abs(scene.truth(index).xyxy[0] - drawn).max() <= 4.0


def test_truth_leaves_out_what_is_hidden_and_keeps_identities() -> None:
    scene = Scene(1, 64, 48, objects=40)
    truth = [scene.truth(k) for k in range(20)]
    assert all(0 < len(seen) < 40 for seen in truth)
    for seen in truth:
        assert len(set(seen.track_id.tolist())) == len(seen)
        assert (scene.class_id[seen.track_id - 1] == seen.class_id).all()


def test_a_scene_may_be_empty() -> None:
    source = SyntheticSource("synthetic:?objects=0")
    assert len(source.truth(3)) == 0
    assert source.decode(3).planes[0].shape == (192, 320, 3)
