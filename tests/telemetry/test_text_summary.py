from collections.abc import Callable

import pytest

from edgepipe.telemetry.figures import LABELS, figure, percent, printable, reasons
from edgepipe.telemetry.records import FrameRecord, RecorderFacts
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.summary import build_summary
from edgepipe.telemetry.text_summary import render_text

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


@pytest.fixture
def frames(make_frame: MakeFrame) -> list[FrameRecord]:
    return [
        make_frame(0, warm_up=True, latency_ms=416.2),
        *(make_frame(n, latency_ms=18 + n % 7) for n in range(1, 320)),
        *(make_frame(n, fate="dropped", reason="doomed") for n in range(320, 330)),
    ]


def test_the_parts_come_in_the_order_in_which_people_read(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    text = render_text(build_summary(*make_run(frames)))
    order = ["model", "throughput", "latency", "misses", "time (ms)", "verdict"]
    places = [text.index(f"\n{word}") for word in order]
    assert places == sorted(places)


def test_percentiles_are_on_one_row_and_an_unclaimed_one_is_a_dash(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    lines = render_text(build_summary(*make_run(frames))).splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("latency"))
    assert lines[head].split()[2:] == list(LABELS.values())
    row = " ".join(lines[head + 1].split())
    assert row == "front 21.0 24.0 24.0 24.0 24.0 - 24.0"


def test_misses_are_told_with_their_reasons(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    text = render_text(build_summary(*make_run(frames)))
    assert "3.04 %  late 0, dropped 10 (doomed 10), failed 0" in text


def test_a_valid_run_says_so_and_an_invalid_one_says_why(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    assert "verdict: VALID, these numbers can be relied on" in render_text(
        build_summary(*make_run(frames))
    )
    text = render_text(build_summary(*make_run(frames, forced_stop="it hung")))
    assert "verdict: INVALID, these numbers should not be relied on:" in text
    assert "  - the pipeline was forced to stop: it hung" in text


def test_every_line_fits_into_eighty_columns_and_obeys_no_foreign_command(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    name = "a very long stream name\x1b[2J\nwith a bell\a " * 3
    frames = [
        make_frame(n, stream=name, fate="dropped", reason=f"reason_{n}")
        for n in range(30)
    ] + [make_frame(40, stream=name, latency_ms=123456.7)]
    text = render_text(
        build_summary(
            *make_run(
                frames,
                model={"name": "x" * 200},
                resources={name: 2},
                sink_failures={name: 3},
                recorder=RecorderFacts(1, 2, 3),
            )
        )
    )
    assert max(map(len, text.splitlines())) <= 80
    assert all(line.isprintable() for line in text.splitlines())
    assert "2 records could not be written" in text
    assert "3 writes failed" in text


def test_a_run_without_anything_is_dashes_and_no_zeros_in_their_place(
    make_run: MakeRun,
) -> None:
    silent = StreamFacts("front", "normal", 33_000_000, 0, 0, {})
    text = render_text(
        build_summary(*make_run([], streams=[silent], engine=None, model=None))
    )
    assert "front                   -        -        -" in text
    assert "no stage infers" in text
    assert "not measured" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0.000"),
        (0.0000123, "1.2e-05"),
        (0.0123, "0.012"),
        (3.456, "3.46"),
        (41.24, "41.2"),
        (1204.4, "1204"),
        (-3.456, "-3.46"),
    ],
)
def test_a_figure_shows_about_three_digits(value: float | None, shown: str) -> None:
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (None, "-"),
        (0, "0.00 %"),
        (0.00001, "<0.01 %"),
        (0.0304, "3.04 %"),
        (0.496, "49.6 %"),
        (1, "100.0 %"),
    ],
)
def test_a_small_share_is_never_shown_as_none(ratio: float | None, shown: str) -> None:
    assert percent(ratio) == shown


def test_reasons_stand_behind_their_total() -> None:
    assert reasons({}) == "0"
    assert reasons({"stale": 4, "doomed": 3}) == "7 (stale 4, doomed 3)"


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[31mb\n") == "a\ufffd[31mb\ufffd"


def test_the_gate_is_one_line_and_none_for_fp32(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    passed = {
        "passed": True,
        "kind": "ap",
        "drop": 0.123,
        "upper": 0.3,
        "allowed": 0.5,
        "objects": 500,
        "frames": 100,
        "reason": "",
    }
    gates = (passed, {"passed": False, "reason": "no gate"}, {"passed": None})
    texts = [
        render_text(build_summary(*make_run(frames, model={"name": "a", "gate": gate})))
        for gate in gates
    ]
    assert "passed (ap): INT8 loses 0.12 points, at most 0.30 of 0.5" in texts[0]
    assert "NOT PASSED: no gate" in texts[1]
    assert "\ngate" not in texts[2]
