import logging
import threading
from dataclasses import dataclass, field

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.deliver import Deliver, Outlet
from edgepipe.telemetry.clock import ManualClock

FRAME = Frame("front", 7, capture_ns=0, deadline_ns=100)


@dataclass
class Kept:
    name: str = "kept"
    frames: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def write(self, frame: Frame, now_ns: int) -> None:
        self.frames.append((frame.sequence, now_ns))

    def close(self) -> None:
        pass


class Full(Kept):
    def write(self, frame: Frame, now_ns: int) -> None:
        raise OSError(28, "No space left on device")


def test_a_result_in_time_reaches_every_sink() -> None:
    sinks = [Kept("a"), Kept("b")]
    Deliver(Outlet(sinks), ManualClock(100), late=False).process(FRAME, 0)
    assert [sink.frames for sink in sinks] == [[(7, 100)], [(7, 100)]]


def test_a_result_past_its_deadline_is_not_delivered() -> None:
    sink = Kept()
    with pytest.raises(FrameError, match=r"1\.0 ms past its deadline") as caught:
        Deliver(Outlet([sink]), ManualClock(1_000_100), late=False).process(FRAME, 0)
    assert caught.value.reason is Reason.EXPIRED
    assert sink.frames == []


def test_a_late_result_is_delivered_where_the_stream_asks_for_it() -> None:
    sink = Kept()
    Deliver(Outlet([sink]), ManualClock(500), late=True).process(FRAME, 0)
    assert sink.frames == [(7, 500)]


def test_a_sink_that_fails_is_counted_and_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    after = Kept("after")
    outlet = Outlet([Full("full"), after])
    with caplog.at_level(logging.WARNING, "edgepipe"):
        for _ in range(3):
            outlet.write(FRAME, 50)
    assert outlet.failures == {"full": 3, "after": 0}
    assert len(after.frames) == 3
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_the_moment_of_delivery_is_stamped_on_the_frame() -> None:
    deliver = Deliver(Outlet([Kept()]), ManualClock(70), late=False)
    assert deliver.process(FRAME, 0).delivered_ns == 70


def test_a_sink_that_cannot_be_finished_is_counted_and_the_others_are_finished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Kept):
        def close(self) -> None:
            raise OSError(28, "No space left on device")

    closed: list[str] = []

    class Closing(Kept):
        def close(self) -> None:
            closed.append(self.name)

    outlet = Outlet([Broken("broken"), Closing("after")])
    outlet.close()
    outlet.close()
    assert outlet.failures == {"broken": 1, "after": 0}
    assert closed == ["after"]
    assert "could not be finished" in caplog.text


def test_a_sink_that_is_stuck_in_a_write_does_not_keep_the_others_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgepipe.stages.deliver.CLOSE_S", 0.01)
    inside, go_on = threading.Event(), threading.Event()

    class Stuck(Kept):
        def write(self, frame: Frame, now_ns: int) -> None:
            inside.set()
            go_on.wait(10)

    outlet = Outlet([Stuck("stuck"), Kept("after")])
    writer = threading.Thread(target=outlet.write, args=(FRAME, 0))
    writer.start()
    assert inside.wait(10)
    outlet.close()
    go_on.set()
    writer.join()
    assert outlet.failures == {"stuck": 1, "after": 0}


def test_a_sink_that_may_wait_for_the_program_is_no_reason_to_think_it_hangs() -> None:
    class Patient(Kept):
        waits = True

    assert Deliver(Outlet([Kept("a"), Patient("b")]), ManualClock(), late=True).waits
    assert not Deliver(Outlet([Kept()]), ManualClock(), late=True).waits
