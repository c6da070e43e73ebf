"""MOTChallenge text: confirmed tracks, frames from 1, whole frames only."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.mot import MotSink

MakeFrame = Callable[..., Frame]
Limit = Callable[[int], AbstractContextManager[None]]


def test_rows_hold_confirmed_tracks_with_corner_size_and_score(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    sink = MotSink(tmp_path / "out.txt")
    tracked = ((10.5, 20, 30, 60.25), 0.91239, 2, 4)
    sink.write(make_frame(0, tracked, ((0, 0, 9, 9), 0.9, 0, -1)), 0)
    sink.write(make_frame(7, ((1, 2, 3, 4), 1.0, 0, 12)), 0)
    sink.close()
    sink.close()
    assert (tmp_path / "out.txt").read_text() == (
        "1,4,10.50,20.00,19.50,40.25,0.9124,-1,-1,-1\n"
        "8,12,1.00,2.00,2.00,2.00,1.0000,-1,-1,-1\n"
    )


def test_frames_without_tracks_leave_an_empty_file(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    sink = MotSink(tmp_path / "out.txt")
    sink.write(make_frame(0).with_changes(detections=None), 0)
    sink.write(make_frame(1), 0)
    sink.write(make_frame(2, ((0, 0, np.nan, 1), 0.5, 0, 1)), 0)
    sink.close()
    assert (tmp_path / "out.txt").read_text() == ""


def test_each_stream_has_a_file_even_if_nothing_was_tracked(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    sink = MotSink(tmp_path / "{stream}.txt")
    sink.write(make_frame(stream="front"), 0)
    sink.write(make_frame(0, ((0, 0, 1, 1), 0.5, 0, 1), stream="rear"), 0)
    sink.close()
    assert (tmp_path / "front.txt").read_text() == ""
    assert (tmp_path / "rear.txt").read_text().startswith("1,1,")


def test_a_frame_that_does_not_fit_is_left_out_whole(
    tmp_path: Path, make_frame: MakeFrame, disk_of: Limit
) -> None:
    objects = [((k, 0, k + 1, 1), 0.5, 0, k) for k in range(1, 4)]
    sink = MotSink(tmp_path / "out.txt")
    with disk_of(50), pytest.raises(OSError, match="too large"):
        sink.write(make_frame(0, *objects), 0)
    sink.write(make_frame(1, *objects), 0)
    sink.close()
    rows = (tmp_path / "out.txt").read_text().splitlines()
    assert [row[:4] for row in rows] == ["2,1,", "2,2,", "2,3,"]
