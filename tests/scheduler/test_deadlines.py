from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.deadlines import MOST_STALE, NEVER_NS, Deadlines
from edgepipe.scheduler.job import Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.roster import Roster
from edgepipe.scheduler.state import FrameState, State

SPEC = StreamSpec("a", (Step("s", "cpu", stateful=False),))
STREAM = Roster([Resource("cpu")], BY_NAME["slack"]).join(SPEC)


def frame(arrival: int) -> FrameState:
    made = FrameState(STREAM, arrival, 0, 0, arrival, 0)
    made.state = State.READY
    return made


def test_nothing_is_due_when_nothing_waits() -> None:
    deadlines = Deadlines()
    assert (deadlines.next_ns(), deadlines.first_ns) == (None, NEVER_NS)
    assert deadlines.passed(10**18) == []


def test_a_frame_is_due_the_moment_after_the_last_good_one() -> None:
    deadlines, one = Deadlines(), frame(0)
    deadlines.add(one, 80)
    assert deadlines.next_ns() == 81
    assert deadlines.passed(80) == []
    assert deadlines.passed(81) == [one]
    assert deadlines.next_ns() is None


def test_a_frame_that_has_started_is_not_due_any_more() -> None:
    deadlines, one, other = Deadlines(), frame(0), frame(1)
    deadlines.add(one, 80)
    deadlines.add(other, 90)
    one.state = State.RUNNING
    assert deadlines.next_ns() == 91
    assert deadlines.passed(100) == [other]


def test_notes_of_frames_that_left_do_not_pile_up() -> None:
    deadlines = Deadlines()
    for n in range(10_000):
        gone = frame(n)
        deadlines.add(gone, 10**18)
        gone.state = State.GONE
    assert len(deadlines) <= 3 * MOST_STALE


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40))
def test_exactly_those_that_wait_and_are_late_are_taken_out_in_order(
    drawn: list[tuple[int, bool]],
) -> None:
    deadlines, kept = Deadlines(), list[tuple[int, FrameState]]()
    for arrival, (last_ns, waits) in enumerate(drawn):
        made = frame(arrival)
        deadlines.add(made, last_ns)
        if waits:
            kept.append((last_ns, made))
        else:
            made.state = State.GONE
    late = sorted((last_ns, made.arrival) for last_ns, made in kept if last_ns < 25)
    assert [made.arrival for made in deadlines.passed(25)] == [a for _, a in late]
