"""Media that broke other programs, as users run them: one command, one summary."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import edgepipe
from edgepipe.cli import main
from edgepipe.telemetry.frame_log import read_frames
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.run_folder import RunFolder

NAMES = {
    "vfr": "vfr.mp4",
    "lies": "rate_lies.mkv",
    "jpegs": "raw.mjpeg",
    "unstamped": "raw.h264",
    "late": "late_start.ts",
    "edited": "edit_list.mp4",
    "wrap": "wrap.ts",
    "twice": "dup_pts.ts",
    "reordered": "bframes.mp4",
    "cut": "cut_tail.mp4",
    "turned": "phone_rot90.mp4",
}


def find(cases: Path, name: str) -> Path:
    (path,) = cases.glob(f"*/{name}")
    return path


def right(cases: Path, name: str) -> Any:
    path = find(cases, name).parent / "expected.json"
    return json.loads(path.read_text(encoding="utf-8"))


def stream(name: str, uri: Path, **source: Any) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"uri": str(uri), "pace": "fast", **source},
        "deadline": "60s",
        "queue": {"capacity": 2, "overflow": "block"},
    }


def write(folder: Path, streams: list[dict[str, Any]]) -> Path:
    config = {
        "version": 1,
        "streams": streams,
        "model": {"path": "scene-tiny"},
        "telemetry": {"dir": str(folder / "runs")},
        "sinks": [{"kind": "jsonl", "path": str(folder / "results.jsonl")}],
    }
    path = folder / "run.yaml"
    path.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    return path


class Run:
    """What one run left behind."""

    def __init__(self, folder: Path) -> None:
        (run,) = (folder / "runs").iterdir()
        self.summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        log = read_frames(RunFolder(run).frames)
        self.records = list(log.records())
        text = (folder / "results.jsonl").read_text(encoding="utf-8")
        self.lines = [json.loads(line) for line in text.splitlines()]

    def source(self, name: str) -> Any:
        return self.summary["streams"][name]["source"]

    def frames(self, name: str) -> list[FrameRecord]:
        found = [record for record in self.records if record.stream == name]
        return sorted(found, key=lambda record: record.sequence)

    def times_s(self, name: str) -> list[float]:
        return [(record.pts_ns or 0) / 1e9 for record in self.frames(name)]


@pytest.fixture(scope="module")
def done(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run over all of them."""
    folder = tmp_path_factory.mktemp("media")
    given = {"jpegs": {"fps": 10}}
    streams = [
        stream(name, find(cases, file), **given.get(name, {}))
        for name, file in NAMES.items()
    ]
    assert main(["run", str(write(folder, streams))]) == 0
    return Run(folder)


@pytest.mark.parametrize("name", NAMES)
def test_times_begin_at_zero_and_rise_and_no_frame_is_older_than_its_result(
    done: Run, name: str
) -> None:
    times = done.times_s(name)
    assert times[0] == 0
    assert (np.diff(times) > 0).all()
    frames = done.frames(name)
    assert [record.sequence for record in frames] == list(range(len(frames)))
    assert all(record.done_ns >= record.capture_ns for record in frames)
    assert {record.fate for record in frames} == {"completed"}


@pytest.mark.parametrize(
    ("name", "frames", "last_s"),
    [
        ("vfr", 114, 6.085),
        ("lies", 60, 59 / 15),
        ("jpegs", 60, 5.9),
        ("late", 50, 1.96),
        ("edited", 38, 1.48),
        ("wrap", 200, 7.96),
        ("twice", 100, 3.96),
        ("reordered", 100, 3.96),
        ("cut", 100, 3.96),
        ("turned", 50, 1.96),
    ],
)
def test_every_frame_is_in_the_log_with_its_time(
    done: Run, name: str, frames: int, last_s: float
) -> None:
    assert done.summary["streams"][name]["captured"] == frames
    times = done.times_s(name)
    assert len(times) == frames
    assert times[-1] == pytest.approx(last_s, abs=0.001)


def test_mean_rates_are_those_of_the_stamps(done: Run, cases: Path) -> None:
    vfr, lies = right(cases, "vfr.mp4"), right(cases, "rate_lies.mkv")
    times = done.times_s("vfr")
    assert [round(t * 1000) for t in times] == vfr["pts_ms"]
    assert (len(times) - 1) / times[-1] == pytest.approx(vfr["mean_fps"], abs=0.01)
    times = done.times_s("lies")
    assert (len(times) - 1) / times[-1] == pytest.approx(
        lies["fps_effective"], abs=lies["tolerance"]
    )


def test_what_was_not_believed_or_assumed_is_in_the_summary(done: Run) -> None:
    said = "\n".join(done.summary["warnings"])
    assert "30000 fps is not believed" in said
    assert "unstamped: no time stamps in the file: assumed" in said
    assert "3 time stamps did not rise" in said


def test_each_source_says_what_befell_it(done: Run, cases: Path) -> None:
    counts = {name: done.source(name)["events"] for name in NAMES}
    twice = right(cases, "dup_pts.ts")["dup_pts.ts"]
    assert counts["twice"] == {"duplicate": twice["duplicates"], "end": 1}
    assert counts["wrap"] == {"wrap": 1, "end": 1}
    for name in ("lies", "jpegs", "late", "edited", "reordered", "turned", "cut"):
        assert counts[name] == {"end": 1}
    (wrap,) = (
        e for e in done.summary["source_events"]["events"] if e["kind"] == "wrap"
    )
    assert wrap["pts_s"] == 0.04 * right(cases, "wrap.ts")["wrap_at_frame"]


def test_every_gap_of_a_recording_without_a_steady_rate_is_told(
    done: Run, cases: Path
) -> None:
    steps = np.diff(right(cases, "vfr.mp4")["pts_ms"])
    told = [
        (event["pts_s"], event["amount_s"])
        for event in done.summary["source_events"]["events"]
        if event["kind"] == "gap"
    ]
    assert len(told) == (steps > 4 * 33).sum()
    assert [amount for _, amount in told] == pytest.approx([0.485 - 0.033] * 3)


def test_a_recording_that_is_cut_off_is_called_truncated(done: Run) -> None:
    source = done.source("cut")
    assert source["state"] == "truncated"
    assert "100 of 200" in source["detail"]


def test_boxes_are_in_pixels_of_the_picture_as_it_is_shown(
    done: Run, cases: Path
) -> None:
    width, height = right(cases, "phone_rot90.mp4")["display_wh"]
    boxes = [
        each["xyxy"]
        for line in done.lines
        if line["stream"] == "turned"
        for each in line["objects"]
    ]
    corners = np.array(boxes).reshape(-1, 4)
    assert (corners[:, ::2] <= 1.1 * width).all()
    assert (corners[:, 1::2] <= 1.1 * height).all()


def test_a_turned_picture_has_each_coded_pixel_where_it_belongs(cases: Path) -> None:
    from edgepipe.stages.convert import to_bgr
    from edgepipe.stages.sources.open import open_source

    path = find(cases, "phone_rot90.mp4")
    source = open_source(str(path))
    assert source.next_arrival() is not None
    shown = to_bgr(source.decode(0)).astype(int)
    with av.open(str(path)) as container:
        coded = next(container.decode(video=0)).to_ndarray(format="bgr24").astype(int)
    height, width = coded.shape[:2]
    assert right(cases, path.name)["coded_wh"] == [width, height]
    y, x = np.mgrid[0:height, 0:width]
    assert np.abs(shown[x, height - 1 - y] - coded).mean() < 3


@pytest.mark.parametrize("name", ["no_moov.mp4", "empty.mp4", "text.mp4"])
def test_a_bogus_file_is_a_mistake_and_told_in_one_line(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = write(tmp_path, [stream("front", find(cases, name))])
    assert main(["run", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line


def test_a_looped_recording_gives_new_frames_and_new_tracks(
    cases: Path, tmp_path: Path
) -> None:
    rule = right(cases, "clip.mp4")
    path = write(tmp_path, [stream("front", find(cases, "clip.mp4"), loop=True)])
    frames: list[Any] = []
    with edgepipe.Pipeline.from_config(str(path)) as pipeline:
        for frame in pipeline:
            frames.append(frame)
            if len(frames) == rule["frames"]:
                break
        befell = pipeline.runtime.source_history
    assert [frame.sequence for frame in frames] == list(range(rule["frames"]))
    times = [frame.pts_ns for frame in frames]
    assert set(np.diff(times).tolist()) == {40_000_000}
    assert times[-1] - times[0] >= 5.96e9
    seams = [each.event.pts_ns for each in befell if each.event.kind.value == "loop"]
    assert seams[:2] == [times[50], times[100]]
    laps = [
        {int(i) for f in frames[k : k + 50] for i in f.detections.track_id if i > 0}
        for k in (0, 50, 100)
    ]
    assert not laps[0] & laps[1]
    assert not laps[1] & laps[2]


def test_paths_in_any_script_are_unharmed_in_whatever_is_written(
    cases: Path, tmp_path: Path
) -> None:
    (config,) = cases.glob("*/run.yaml")
    rule = json.loads((config.parent / "expected.json").read_text(encoding="utf-8"))
    (clip,) = config.parent.rglob("*.mp4")
    path = write(tmp_path, [stream("앞문", clip)])
    settings = dict(each.split("=") for each in rule["env"] if "=" in each)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"}
    for locale in ({"LANG": "C", "LC_ALL": "C"}, settings):
        done = subprocess.run(
            [sys.executable, "-m", "edgepipe", "run", str(path)],
            capture_output=True,
            check=False,
            env={**kept, **locale},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        run = Run(tmp_path)
        source = run.source("앞문")
        assert source["uri"] == str(clip)
        assert run.summary["streams"]["앞문"]["captured"] == rule["frames"]
        assert {line["stream"] for line in run.lines} == {"앞문"}
        assert {record.stream for record in run.records} == {"앞문"}
        for each in (tmp_path / "runs").iterdir():
            each.rename(tmp_path / f"run in {locale['LC_ALL']}")
