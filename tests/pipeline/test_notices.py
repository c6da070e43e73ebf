import logging

import pytest

from edgepipe.pipeline.notices import Notices
from edgepipe.scheduler.events import (
    Admitted,
    Alarm,
    Cause,
    Kind,
    Refused,
    RungChanged,
)


def test_an_alarm_is_logged_once_for_each_subject_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = Notices()
    for stream in ("front", "front", "rear"):
        notices.take(Alarm(Kind.TIMESTAMP_STEP, stream, 5))
    assert notices.alarms == {
        ("timestamp_step", "front"): 2,
        ("timestamp_step", "rear"): 1,
    }
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "front: timestamp_step (5)" in caplog.text


def test_a_move_on_the_ladder_is_logged_once_for_each_cause_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = Notices()
    with caplog.at_level(logging.INFO, "edgepipe"):
        for cause in (Cause.DEMAND, Cause.DEMAND, Cause.PROBE):
            notices.take(RungChanged("front", 1, cause, 1250))
    assert notices.rung_changes == {("front", "demand"): 2, ("front", "probe"): 1}
    assert len(caplog.records) == 2
    assert "rung 1 of its ladder because of demand, at a demand of 125.0 %" in (
        caplog.text
    )


def test_who_asks_to_be_admitted_is_told_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = Notices()
    with caplog.at_level(logging.INFO, "edgepipe"):
        notices.take(Admitted("front"))
        notices.take(Refused("rear", "gpu", 1100, ""))
    assert [record.message for record in caplog.records] == [
        "stream front: admitted",
        "stream rear: refused, gpu would be asked for 110.0 % of what it can do",
    ]
