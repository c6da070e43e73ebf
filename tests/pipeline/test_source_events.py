"""What befalls a source is told at once, and again to every step in its order."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import MOST_EVENTS
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival, EventKind, Source, SourceEvent, SourceInfo
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import Overflow, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord

from .scripted import CPU, MS, PERIOD_NS, PICTURE, Do, ScriptedSource, nothing

LOOP = SourceEvent(EventKind.LOOP, "lap 2", amount_ns=40 * MS)
GAP = SourceEvent(EventKind.GAP, "3 frames", amount_ns=120 * MS)


@dataclass
class Eventful:
    """Frames, and before some of them events."""

    count: int
    events: Sequence[tuple[int, SourceEvent]]
    """Each with the frame that it comes before."""
    told: int = 0
    given: int = 0
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("test:", 2, 2, 25.0, "raw", live=False)
    )
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()

    def next_arrival(self) -> Arrival | SourceEvent | None:
        if self.told < len(self.events) and self.events[self.told][0] == self.given:
            self.told += 1
            return self.events[self.told - 1][1]
        if self.given == self.count:
            return None
        self.given += 1
        return Arrival(self.given - 1, (self.given - 1) * PERIOD_NS)

    def decode(self, index: int) -> Picture:
        return PICTURE

    def close(self) -> None:
        pass


def play(
    source: Source, first: Do, second: Do, credits_: bool = True
) -> tuple[Runtime, list[FrameRecord]]:
    """Run a stream of two steps in order to its end."""
    records: list[FrameRecord] = []
    spec = StreamSpec(
        "front",
        (Step("first", "cpu", True), Step("second", "cpu", True)),
        overflow=Overflow.BLOCK,
        credits=credits_,
    )
    plan = StreamPlan(spec, source, ((first,), (second,)), 10**12, Pace.FAST)
    runtime = Runtime(
        [plan], Scheduler([spec], CPU), CPU, ManualClock(), records.append
    )
    runtime.start()
    assert runtime.wait(60)
    runtime.stop()
    return runtime, records


def test_every_step_is_told_before_the_frame_that_follows() -> None:
    told: dict[str, list[tuple[int, tuple[SourceEvent, ...]]]] = {"1": [], "2": []}

    def note(name: str) -> Do:
        return Do(
            name, lambda frame, _: told[name].append((frame.sequence, frame.events))
        )

    source = Eventful(4, events=((1, GAP), (3, LOOP), (3, GAP)))
    play(source, note("1"), note("2"))
    expected = [(0, ()), (1, (GAP,)), (2, ()), (3, (LOOP, GAP))]
    assert told == {"1": expected, "2": expected}


def test_a_step_learns_of_what_came_with_a_frame_that_it_never_saw() -> None:
    seen: list[tuple[int, int, tuple[SourceEvent, ...]]] = []

    def lose_the_second(frame: Frame, worker: int) -> Frame:
        if frame.sequence == 1:
            raise FrameError(Reason.DAMAGED, "grey")
        return frame

    def note(frame: Frame, worker: int) -> None:
        seen.append((frame.sequence, frame.gap, frame.events))

    source = Eventful(4, events=((1, LOOP), (2, GAP)))
    play(source, Do("decode", lose_the_second), Do("track", note))
    assert seen == [(0, 0, ()), (2, 1, (LOOP, GAP)), (3, 0, ())]


def test_events_are_counted_and_kept_with_their_times() -> None:
    source = Eventful(3, events=((0, GAP), (2, GAP), (2, LOOP)))
    runtime, records = play(source, Do("a", nothing), Do("b", nothing))
    assert runtime.source_events == {
        ("front", "gap"): 2,
        ("front", "loop"): 1,
        ("front", "end"): 1,
    }
    end = SourceEvent(EventKind.END, "ended")
    assert [each.event for each in runtime.source_history] == [GAP, GAP, LOOP, end]
    assert [record.fate for record in records] == ["completed"] * 3


def test_what_a_picture_tells_goes_to_the_steps_that_follow() -> None:
    told: list[tuple[int, tuple[SourceEvent, ...]]] = []
    size = SourceEvent(EventKind.RESOLUTION, "2x2 becomes 4x4")
    damage = SourceEvent(EventKind.DAMAGE, "grey")

    def decode(frame: Frame, worker: int) -> Frame:
        if frame.sequence == 2:
            return frame.with_changes(events=(*frame.events, size))
        if frame.sequence == 3:
            raise FrameError(Reason.DAMAGED, "grey", (damage,))
        return frame

    def note(frame: Frame, worker: int) -> None:
        told.append((frame.sequence, frame.events))

    source = Eventful(5, events=((2, GAP),))
    runtime, records = play(source, Do("decode", decode), Do("track", note))
    assert told == [(0, ()), (1, ()), (2, (GAP, size)), (4, (damage,))]
    assert runtime.source_events == {
        ("front", kind): 1 for kind in ("gap", "resolution", "damage", "end")
    }
    assert records[3].fate == "dropped"


def test_how_a_source_ended_is_its_last_event() -> None:
    source = Eventful(2, events=(), end_state=("truncated", "2 of 9 frames"))
    runtime, _ = play(source, Do("a", nothing), Do("b", nothing))
    (last,) = runtime.source_history
    assert last.event == SourceEvent(EventKind.END, "truncated: 2 of 9 frames")


def test_an_event_costs_no_credit() -> None:
    """Else a source that tells of more than it has frames would stop for ever."""
    source = Eventful(3, events=tuple((n, GAP) for n in range(3) for _ in range(50)))
    runtime, records = play(source, Do("a", nothing), Do("b", nothing))
    assert len(records) == 3
    assert runtime.source_events[("front", "gap")] == 150


def test_only_the_newest_of_many_events_go_with_a_frame() -> None:
    told: list[int] = []
    many = [(0, GAP._replace(amount_ns=n)) for n in range(3 * MOST_EVENTS)]
    source = Eventful(1, events=many)
    play(
        source,
        Do("a", nothing),
        Do("b", lambda frame, _: told.extend(e.amount_ns for e in frame.events)),
    )
    assert told == list(range(2 * MOST_EVENTS, 3 * MOST_EVENTS))


def test_a_camera_says_when_its_picture_was_taken() -> None:
    class Camera(ScriptedSource):
        def next_arrival(self) -> Arrival | None:
            arrival = super().next_arrival()
            if arrival is None:
                return None
            return Arrival(arrival.index, None, captured_ns=1000 + arrival.index)

    _, records = play(Camera(3), Do("a", nothing), Do("b", nothing))
    assert [record.capture_ns for record in records] == [1000, 1001, 1002]


def test_a_camera_that_waits_for_a_frame_is_woken_to_stop() -> None:
    from threading import Event

    class Waiting(ScriptedSource):
        woken = Event()

        def next_arrival(self) -> Arrival | None:
            if self.given:
                assert self.woken.wait(60)
                return None
            return super().next_arrival()

        def interrupt(self) -> None:
            self.woken.set()

    source = Waiting(2)
    spec = StreamSpec("front", (Step("a", "cpu", True),))
    plan = StreamPlan(spec, source, ((Do("a", nothing),),), 10**12, Pace.REALTIME)
    runtime = Runtime(
        [plan], Scheduler([spec], CPU), CPU, ManualClock(), lambda _: None
    )
    runtime.start()
    assert runtime.wait_until_ready(60)
    assert runtime.stop() == []
    (ended,) = runtime.source_records()
    assert ended.state == "stopped"
