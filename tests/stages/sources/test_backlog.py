"""What waits to be decoded is bounded and never misses what it refers to."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources.backlog import Backlog
from edgepipe.stages.sources.camera import Decoded, Shot


class NoDecoder:
    """Stands for a connection."""

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        return ()

    def forget(self) -> None:
        pass


ONE, OTHER = NoDecoder(), NoDecoder()


def shot(stamp: int, *, key: bool = False, dts: int | None = None) -> Shot:
    return Shot(None, stamp, 100, key, stamp, dts)


def stamps(backlog: Backlog, index: int) -> list[int]:
    return [waiting.shot.stamp for waiting in backlog.take(index).shots]


def test_nothing_is_announced_before_the_first_key_frame() -> None:
    backlog = Backlog()
    assert backlog.push(shot(0), ONE) == ()
    assert backlog.push(shot(1), ONE) == ()
    (frame,) = backlog.push(shot(2, key=True), ONE)
    assert frame.number == 0
    assert backlog.left_out == 0
    assert stamps(backlog, 0) == [2]


def test_a_frame_brings_along_what_it_refers_to() -> None:
    backlog = Backlog()
    for stamp in range(4):
        backlog.push(shot(stamp, key=stamp == 0), ONE)
    assert stamps(backlog, 2) == [0, 1, 2]
    assert stamps(backlog, 3) == [3]


def test_frames_before_the_last_key_frame_are_left_out() -> None:
    backlog = Backlog()
    for stamp in range(10):
        backlog.push(shot(stamp, key=stamp % 4 == 0), ONE)
    taken = backlog.take(9)
    assert [waiting.shot.stamp for waiting in taken.shots] == [8, 9]
    assert taken.jumped
    with pytest.raises(DamagedError, match="given up"):
        backlog.take(3)


def test_too_many_shots_are_left_out_up_to_the_next_key_frame() -> None:
    backlog = Backlog(most_shots=6)
    for stamp in range(8):
        backlog.push(shot(stamp, key=stamp % 4 == 0), ONE)
    assert backlog.left_out == 4
    with pytest.raises(DamagedError):
        backlog.take(3)
    taken = backlog.take(5)
    assert [waiting.shot.stamp for waiting in taken.shots] == [4, 5]
    assert taken.jumped


def test_without_a_key_frame_nothing_is_kept_until_there_is_one() -> None:
    backlog = Backlog(most_shots=4)
    for stamp in range(20):
        frames = backlog.push(shot(stamp, key=stamp == 0), ONE)
        assert bool(frames) == (stamp < 4)
    assert backlog.left_out == 20
    (frame,) = backlog.push(shot(20, key=True), ONE)
    assert frame.number == 4
    assert backlog.take(4).jumped


def test_bytes_count_too() -> None:
    backlog = Backlog(most_bytes=250)
    for stamp in range(5):
        backlog.push(shot(stamp, key=True), ONE)
    with pytest.raises(DamagedError):
        backlog.take(2)
    assert stamps(backlog, 3) == [3]


def test_numbers_go_on_after_a_new_connection_which_needs_a_key_frame() -> None:
    backlog = Backlog()
    backlog.push(shot(500, key=True), ONE)
    backlog.push(shot(501), ONE)
    assert backlog.push(shot(0), OTHER) == ()
    (frame,) = backlog.push(shot(1, key=True), OTHER)
    assert frame.number == 2
    assert stamps(backlog, 1) == [500, 501]
    assert stamps(backlog, 2) == [1]


def test_reordered_frames_are_announced_as_they_are_shown() -> None:
    backlog = Backlog()
    order = [(0, -1), (3, 0), (1, 1), (2, 2), (4, 3)]
    seen = [
        frame.captured_ns
        for n, (stamp, dts) in enumerate(order)
        for frame in backlog.push(shot(stamp, key=n == 0, dts=dts), ONE)
    ]
    assert seen == [0, 1, 2, 3]
    taken = backlog.take(1)
    assert [waiting.shot.stamp for waiting in taken.shots] == [0, 3, 1]
    assert backlog.take(3).shots == ()  # it went in already
    following = backlog.take_next()
    assert following is not None
    assert following.shot.stamp == 2


def test_capture_times_rise_from_frame_to_frame() -> None:
    backlog = Backlog()
    seen = [
        frame.captured_ns
        for number, captured_ns in enumerate([5, 5, 4, 9, 8, 20])
        for frame in backlog.push(Shot(None, captured_ns, 1, True, number), ONE)
    ]
    assert seen == [5, 6, 7, 9, 10, 20]


def test_a_camera_whose_clock_is_set_back_goes_on_with_its_next_key_frame() -> None:
    backlog = Backlog()
    backlog.push(shot(1000, key=True), ONE)
    assert backlog.push(shot(5), ONE) == ()
    assert len(backlog.push(shot(10, key=True), ONE)) == 1


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=200),
    st.integers(2, 20),
)
def test_what_is_taken_can_always_be_decoded(
    steps: list[tuple[bool, bool]], most: int
) -> None:
    """Every shot follows the one fed before it, or is a key frame."""
    backlog, newest, fed = Backlog(most_shots=most), -1, -1
    for stamp, (key, asks) in enumerate(steps):
        for frame in backlog.push(shot(stamp, key=key), ONE):
            assert frame.number == newest + 1
            newest = frame.number
        if asks and newest >= 0:
            try:
                taken = backlog.take(newest)
            except DamagedError:
                continue
            for number, waiting in enumerate(taken.shots):
                follows = waiting.shot.stamp == fed + 1
                assert follows or (number == 0 and waiting.shot.is_key)
                assert follows or taken.jumped or fed < 0
                fed = waiting.shot.stamp
