from collections.abc import Callable
from typing import Any

import pytest

from edgepipe.telemetry.records import FrameRecord, SourceRecord
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.verdict import invalid_because

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


@pytest.fixture
def frames(make_frame: MakeFrame) -> list[FrameRecord]:
    """As many as a p99 needs."""
    return [make_frame(n) for n in range(299)]


def test_a_clean_run_with_enough_frames_is_valid(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    assert invalid_because(*make_run(frames)) == []


def test_missed_deadlines_make_no_run_invalid(
    make_run: MakeRun, make_frame: MakeFrame, frames: list[FrameRecord]
) -> None:
    missed = [make_frame(n, fate="dropped", reason="stale") for n in range(299, 900)]
    late = [make_frame(n, fate="late") for n in range(900, 1200)]
    assert invalid_because(*make_run(frames + missed + late)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ledger_balanced": False}, "the ledger does not balance"),
        ({"forced_stop": "stage 'infer' hung"}, "forced to stop: stage 'infer' hung"),
        ({"asked_ns": 20_000_000_000}, "stopped early: 10.0 s measured of 20.0 s"),
        (
            {"sources": [SourceRecord("front", "x", "failed", "no route", None)]},
            "stream 'front': the source failed: no route",
        ),
        ({"streams": []}, "no stream was run"),
        (
            {"irregularities": ["the ledger does not balance"]},
            "while it ran: the ledger does not balance",
        ),
        (
            {"preflight": ["clocks, pinned: no: gpu 306 MHz to 1020 MHz"]},
            "not fit for a bench: clocks, pinned: no",
        ),
    ],
)
def test_a_run_is_invalid_for_one_plain_reason(
    make_run: MakeRun,
    frames: list[FrameRecord],
    change: dict[str, Any],
    expected: str,
) -> None:
    (reason,) = invalid_because(*make_run(frames, **change))
    assert expected in reason


def test_a_run_that_was_not_given_a_length_cannot_be_too_short(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    assert invalid_because(*make_run(frames, asked_ns=None)) == []


def test_too_few_delivered_frames_for_a_p99_are_named_with_what_is_needed(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    (reason,) = invalid_because(*make_run(frames[:298]))
    assert reason == (
        "stream 'front': 298 of 298 frames were delivered, and a p99 needs 299"
    )


def test_a_stream_whose_frames_were_all_warm_up_was_not_measured(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    (reason,) = invalid_because(*make_run([make_frame(0, warm_up=True)]))
    assert reason == "stream 'front': no frame was measured"


@pytest.mark.parametrize("cause", ["stage_error", "bad_output", "hung"])
def test_a_broken_stage_makes_the_run_invalid_even_in_the_warm_up(
    make_run: MakeRun, make_frame: MakeFrame, frames: list[FrameRecord], cause: str
) -> None:
    broken = make_frame(300, fate="failed", reason=cause, warm_up=True)
    (reason,) = invalid_because(*make_run([*frames, broken]))
    assert reason == "stream 'front': a stage failed on 1 of 300 frames"


def test_a_damaged_input_frame_is_not_a_broken_stage(
    make_run: MakeRun, make_frame: MakeFrame, frames: list[FrameRecord]
) -> None:
    damaged = make_frame(300, fate="failed", reason="damaged")
    assert invalid_because(*make_run([*frames, damaged])) == []


def test_a_ledger_whose_counts_do_not_add_up_is_not_believed_when_it_says_they_do(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    ledger = StreamFacts("front", "normal", 1, 300, 0, {"completed": 299})
    (reason,) = invalid_because(*make_run(frames, streams=[ledger]))
    assert "the ledger does not balance" in reason


def test_a_ledger_that_counts_other_frames_than_were_recorded_is_named(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    fates = {"completed": 299, "dropped:stale": 2}
    ledger = StreamFacts("front", "normal", 1, 301, 0, fates)
    (reason,) = invalid_because(*make_run(frames, streams=[ledger]))
    assert reason == (
        "stream 'front': the ledger counts completed 299, dropped:stale 2,"
        " the frame records completed 299"
    )
