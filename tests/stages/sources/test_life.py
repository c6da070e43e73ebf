"""What a camera goes through, told by the clock."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.stages.sources.life import SECOND_NS, Life, Patience, State

MS = 1_000_000
PERIOD_NS = 33 * MS


def kinds(events: tuple[SourceEvent, ...]) -> list[EventKind]:
    return [event.kind for event in events]


def live(patience: Patience | None = None, now_ns: int = 0) -> Life:
    """A camera whose first picture has just come."""
    life = Life(patience or Patience(), Random(1))
    life.start(now_ns)
    life.opened(now_ns, PERIOD_NS)
    life.frame(now_ns)
    return life


def test_a_camera_is_live_with_its_first_picture_not_with_its_connection() -> None:
    life = Life(Patience(), Random(1))
    assert kinds(life.start(0)) == [EventKind.CONNECTING]
    assert life.opened(100 * MS) == ()
    assert life.state is State.CONNECTING
    (event,) = life.frame(300 * MS)
    assert event.kind is EventKind.LIVE
    assert event.detail == "the first picture after 0.3 s"
    assert life.frame(333 * MS) == ()


def test_a_camera_that_falls_silent_has_stalled_after_three_frames_or_a_second() -> (
    None
):
    for period_ns, stalls_ns in ((PERIOD_NS, SECOND_NS), (SECOND_NS, 3 * SECOND_NS)):
        life = Life(Patience(reconnect_after_ns=60 * SECOND_NS), Random(1))
        life.start(0)
        life.opened(0, period_ns)
        life.frame(0)
        assert life.wake_ns == stalls_ns
        assert life.tick(stalls_ns - 1) == ()
        (event,) = life.tick(stalls_ns)
        assert event.kind is EventKind.STALLED
        assert event.amount_ns == stalls_ns
        assert life.tick(stalls_ns + 1) == ()


def test_a_stall_that_ends_is_told_with_the_time_that_is_missing() -> None:
    life = live()
    life.tick(2 * SECOND_NS)
    events = life.frame(4 * SECOND_NS)
    assert kinds(events) == [EventKind.LIVE, EventKind.GAP]
    assert events[1].amount_ns == 4 * SECOND_NS
    assert life.status().reconnects == 0


def test_a_connection_that_stays_silent_is_given_up() -> None:
    life = live()
    assert life.why_given_up(5 * SECOND_NS - 1) == ""
    assert life.why_given_up(5 * SECOND_NS) == "nothing came for 5.0 s"


def test_a_connection_has_a_grace_before_its_first_picture() -> None:
    life = Life(Patience(grace_ns=10 * SECOND_NS), Random(1))
    life.start(0)
    life.opened(SECOND_NS)
    assert life.why_given_up(11 * SECOND_NS - 1) == ""
    assert life.why_given_up(11 * SECOND_NS).startswith("connected, but no picture")
    life.heard(10 * SECOND_NS)  # no key frame yet, but it sends
    assert life.why_given_up(11 * SECOND_NS) == ""


def test_an_attempt_that_a_library_holds_is_told_of_and_its_late_end_is_not() -> None:
    life = Life(Patience(connect_ns=5 * SECOND_NS), Random(1))
    life.start(0)
    assert life.tick(6 * SECOND_NS - 1) == ()
    assert kinds(life.tick(6 * SECOND_NS)) == [EventKind.BACKING_OFF]
    assert life.failed(30 * SECOND_NS, "name not known") == ()
    assert life.is_due(30 * SECOND_NS)


def test_waits_double_up_to_the_longest_and_never_less_than_half_of_it() -> None:
    life = Life(Patience(), Random(1))
    now_ns, waits_s = 0, list[float]()
    for _ in range(8):
        life.start(now_ns)
        (event,) = life.failed(now_ns, "connection refused")
        waits_s.append(event.amount_ns / 1e9)
        now_ns += event.amount_ns
        assert not life.is_due(now_ns - 1)
        assert life.is_due(now_ns)
    longest = [1, 2, 4, 8, 10, 10, 10, 10]
    for wait_s, most_s in zip(waits_s, longest, strict=True):
        assert most_s / 2 <= wait_s <= most_s
    assert len(set(waits_s)) == 8


def test_cameras_lost_together_do_not_come_back_together() -> None:
    waits = set[int]()
    for seed in range(10):
        life = Life(Patience(), Random(seed))
        life.start(0)
        waits.add(life.failed(0, "unplugged")[0].amount_ns)
    assert len(waits) == 10


def test_a_connection_that_held_makes_the_next_wait_short_again() -> None:
    life = Life(Patience(), Random(1))
    for _ in range(6):
        life.start(0)
        life.failed(0, "refused")
    life.start(0)
    life.opened(0)
    life.frame(0)
    (event,) = life.failed(5 * SECOND_NS, "closed")
    assert event.amount_ns <= SECOND_NS


def test_one_that_opens_and_dies_at_once_is_not_tried_all_the_time() -> None:
    life = Life(Patience(), Random(1))
    waits = list[int]()
    for _ in range(5):
        life.start(0)
        life.opened(0)
        life.frame(0)
        waits.append(life.failed(SECOND_NS, "input/output error")[0].amount_ns)
    assert waits[-1] >= 5 * SECOND_NS


def test_a_device_that_appears_again_is_tried_at_once() -> None:
    life = live()
    life.failed(SECOND_NS, "unplugged")
    assert not life.is_due(SECOND_NS + 100 * MS)
    life.appeared(SECOND_NS + 100 * MS)
    assert life.is_due(SECOND_NS + 100 * MS)
    life.start(SECOND_NS + 100 * MS)
    life.opened(SECOND_NS + 100 * MS, PERIOD_NS)
    events = life.frame(SECOND_NS + 200 * MS)
    assert kinds(events) == [EventKind.LIVE, EventKind.DISCONTINUITY]
    assert events[1].amount_ns == SECOND_NS + 200 * MS  # since the last picture
    assert life.status().reconnects == 1


def test_a_camera_is_given_up_after_as_many_tries_as_are_allowed() -> None:
    life = Life(Patience(retries=2), Random(1))
    told = list[EventKind]()
    for _ in range(3):
        told += kinds(life.start(0))
        told += kinds(life.failed(0, "refused"))
    assert told[1::2] == [EventKind.BACKING_OFF] * 2 + [EventKind.GONE]
    assert life.state is State.GONE
    assert life.failed(1, "refused") == ()


def test_the_same_picture_again_and_again_is_frozen_until_it_changes() -> None:
    life = live(Patience(frozen_after_ns=8 * SECOND_NS))
    told = list[tuple[int, EventKind]]()
    for second in range(20):
        now_ns = second * SECOND_NS
        life.frame(now_ns)
        assert life.wants_look(now_ns)
        assert not life.wants_look(now_ns - 1)
        for event in life.looked(now_ns, 7 if second < 15 else second):
            told.append((second, event.kind))
    assert told == [(8, EventKind.FROZEN), (15, EventKind.LIVE)]


def test_a_picture_from_before_the_outage_is_not_one_that_froze() -> None:
    life = live(Patience(frozen_after_ns=8 * SECOND_NS))
    life.looked(0, 7)
    life.failed(SECOND_NS, "closed")
    life.start(20 * SECOND_NS)
    life.opened(20 * SECOND_NS)
    life.frame(20 * SECOND_NS)
    assert life.looked(20 * SECOND_NS, 7) == ()
    assert not life.status().frozen


def test_nobody_looks_whether_it_freezes_if_that_is_not_wanted() -> None:
    assert not live(Patience(frozen_after_ns=0)).wants_look(10**15)


class AnyLife(RuleBasedStateMachine):
    """Whatever happens in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(Patience(retries=5), Random(0))
        self.now_ns = 0
        self.told = list[EventKind]()

    def note(self, events: tuple[SourceEvent, ...]) -> None:
        assert all(event.amount_ns >= 0 for event in events)
        self.told += kinds(events)

    @rule(by_ns=st.integers(0, 20 * SECOND_NS))
    def pass_time(self, by_ns: int) -> None:
        self.now_ns += by_ns
        self.note(self.life.tick(self.now_ns))

    @rule()
    def try_again(self) -> None:
        if self.life.is_due(self.now_ns) or not self.told:
            self.note(self.life.start(self.now_ns))

    @rule(period_ns=st.integers(0, SECOND_NS))
    def open(self, period_ns: int) -> None:
        if self.told and self.life.state in (State.CONNECTING, State.BACKING_OFF):
            self.note(self.life.opened(self.now_ns, period_ns))

    @rule()
    def frame(self) -> None:
        if self.life.state in (State.LIVE, State.STALLED):
            self.note(self.life.frame(self.now_ns))

    @rule()
    def fail(self) -> None:
        if self.told:
            self.note(self.life.failed(self.now_ns, "so it is"))

    @invariant()
    def state_is_what_was_told_last(self) -> None:
        states = {
            EventKind.CONNECTING: State.CONNECTING,
            EventKind.LIVE: State.LIVE,
            EventKind.STALLED: State.STALLED,
            EventKind.BACKING_OFF: State.BACKING_OFF,
            EventKind.GONE: State.GONE,
        }
        last = [states[kind] for kind in self.told if kind in states]
        late = State.CONNECTING  # an attempt that was given up, and then came
        assert not last or self.life.state in (last[-1], late)

    @invariant()
    def it_is_never_forgotten(self) -> None:
        """Somebody will look at it again, unless nobody is to."""
        if self.told and self.life.state is not State.GONE:
            assert self.life.wake_ns is not None


TestAnyLife = AnyLife.TestCase


@given(
    st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 60), st.integers()
)
def test_no_wait_is_longer_than_allowed(
    least_ns: int, most_ns: int, failures: int, seed: int
) -> None:
    life = Life(Patience(retry_min_ns=least_ns, retry_max_ns=most_ns), Random(seed))
    for _ in range(failures + 1):
        life.start(0)
        (event,) = life.failed(0, "refused")
        assert 0 <= event.amount_ns <= most_ns
