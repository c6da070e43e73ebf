"""The iou tracker on recorded failures of other trackers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame
from edgepipe.stages.track import IouTracker

PERIOD_NS = 33_333_333


Read = Callable[[str], Any]


@pytest.fixture
def recorded(cases: Path) -> Read:
    """Reads the recording of that name."""

    def read(name: str) -> Any:
        return json.loads(next(cases.glob(f"*/{name}")).read_text())

    return read


def track(tracker: IouTracker, at_ns: int, rows: list[list[float]]) -> list[int]:
    boxes = [row[:4] for row in rows if row]
    n = len(boxes)
    found = Detections.of(np.array(boxes), np.full(n, 0.9), np.zeros(n))
    out = tracker.process(Frame("s", 0, at_ns, at_ns, detections=found), 0).detections
    assert out is not None
    assert out.xyxy.shape == (n, 4)
    return [int(i) for i in out.track_id]


def ids_of(recording: Any) -> tuple[set[int], IouTracker]:
    tracker = IouTracker()
    seen: set[int] = set()
    for shot in recording["frames"]:
        seen |= set(track(tracker, round(shot["t_ms"] * 1e6), shot["dets"]))
    return seen - {UNTRACKED}, tracker


def test_every_form_of_an_empty_frame_is_fine_and_the_id_comes_back(
    recorded: Read,
) -> None:
    forms: list[list[list[float]] | str | None] = recorded("frames.json")["frames"]
    tracker = IouTracker(min_hits=1)
    seen = [
        track(tracker, k * PERIOD_NS, form if isinstance(form, list) else [])
        for k, form in enumerate(forms)
    ]
    assert seen == [[1], [], [], [], [], [], [1]]


def test_one_id_through_gaps_of_up_to_eight_periods_and_the_true_speed(
    recorded: Read,
) -> None:
    seen, tracker = ids_of(recorded("const_speed_drops.json"))
    assert seen == {1}
    assert 270 <= tracker.tracks.velocity[0, 0] <= 330


def test_one_id_through_a_missed_detection_and_a_turn(recorded: Read) -> None:
    seen, _ = ids_of(recorded("turn_back.json"))
    assert seen == {1}


def test_trackers_made_used_and_reset_in_turns_do_not_disturb_each_other(
    recorded: Read,
) -> None:
    trackers: dict[str, IouTracker] = {}
    seen: dict[str, list[list[int]]] = {"A": [], "B": [], "C": []}
    for k, step in enumerate(recorded("two_cameras.json")):
        if step["op"] == "new":
            trackers[step["tr"]] = IouTracker(min_hits=1)
        elif step["op"] == "reset":
            trackers[step["tr"]].close()
        else:
            boxes = track(trackers[step["tr"]], k * PERIOD_NS, step["dets"])
            seen[step["tr"]].append(boxes)
    assert seen == {"A": [[1], [1, 2]], "B": [[1], [2]], "C": [[1]]}


@pytest.mark.slow
def test_thousands_of_one_frame_objects_leave_nothing_behind(recorded: Read) -> None:
    churn = recorded("churn.json")
    tracker = IouTracker(min_hits=1, max_age_ns=churn["lost_after_frames"] * PERIOD_NS)
    for k in range(churn["frames"] // 10):
        x, y = 200.0 * (k % 50), 200.0 * (k % 7)
        assert track(tracker, k * PERIOD_NS, [[x, y, x + 9, y + 9]]) == [k + 1]
    assert tracker.statistics().peak_live <= 64
