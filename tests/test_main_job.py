"""The main job as its users run it: real files, the real model, the real command."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgepipe.assemble import Pipeline
from edgepipe.cli import main
from edgepipe.errors import EdgepipeError
from edgepipe.stages.sources.synthetic import SyntheticSource
from edgepipe.telemetry.frame_log import read_frames
from edgepipe.telemetry.run_folder import RunFolder
from edgepipe.telemetry.summary_schema import validate

SCENE = "synthetic:?seed=3&width=320&height=192&fps=50&frames=150"


def edgepipe(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgepipe", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def write_config(folder: Path, **changes: Any) -> Path:
    """A pipeline over a drawn scene, as fast as it goes, with its results kept."""
    config = {
        "version": 1,
        "streams": [
            {
                "id": "scene",
                "source": {"uri": SCENE, "pace": "fast"},
                "deadline": "10s",
                "queue": {"capacity": 2, "overflow": "block"},
            }
        ],
        "model": {"path": "scene-tiny"},
        "telemetry": {"dir": str(folder / "runs")},
        "sinks": [{"kind": "jsonl", "path": str(folder / "results.jsonl")}],
        **changes,
    }
    path = folder / "robot.yaml"
    path.write_text(json.dumps(config))
    return path


def run_folder(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def results(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def overlap(a: list[float], b: list[float]) -> float:
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return wide * high / (areas - wide * high)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished run over the whole scene."""
    folder = tmp_path_factory.mktemp("done")
    assert main(["run", str(write_config(folder))]) == 0
    return folder


def test_every_frame_of_the_scene_is_delivered_once_and_in_order(done: Path) -> None:
    assert [line["seq"] for line in results(done)] == list(range(150))


def test_what_was_drawn_is_found(done: Path) -> None:
    source, found, drawn = SyntheticSource(SCENE), 0, 0
    for line in results(done):
        truth = source.truth(line["seq"])
        for box, kind in zip(truth.xyxy.tolist(), truth.class_id, strict=True):
            drawn += 1
            found += any(
                overlap(box, each["xyxy"]) >= 0.5 and each["class_id"] == kind
                for each in line["objects"]
            )
    assert found / drawn > 0.8


def test_an_object_keeps_its_identity(done: Path) -> None:
    source = SyntheticSource(SCENE)
    seen: dict[int, list[int]] = {}
    for line in results(done):
        truth = source.truth(line["seq"])
        for box, who in zip(truth.xyxy.tolist(), truth.track_id, strict=True):
            for each in line["objects"]:
                if overlap(box, each["xyxy"]) >= 0.5 and each["track_id"] is not None:
                    seen.setdefault(int(who), []).append(each["track_id"])
    kept = [max(map(ids.count, set(ids))) / len(ids) for ids in seen.values()]
    assert np.mean(kept) > 0.8


def test_the_summary_obeys_its_schema_and_the_books_balance(done: Path) -> None:
    summary = json.loads((run_folder(done) / "summary.json").read_text())
    validate(summary)
    stream = summary["streams"]["scene"]
    assert stream["captured"] == stream["completed"] == 150
    assert summary["ledger"]["balanced"] is True
    assert stream["source"]["state"] == "ended"


def test_the_latency_of_every_frame_adds_up_from_its_parts(done: Path) -> None:
    log = read_frames(run_folder(done) / "frames.arrow")
    assert log.warning == ""
    for record in log.records():
        waited = record.spans[0].ready_ns - record.capture_ns
        *work, deliver = record.spans
        parts = sum(span.queue_ns + span.service_ns for span in work)
        # Delivery is stamped when the last stage begins: what sinks do is no latency.
        handed_over = record.done_ns - deliver.ready_ns
        assert waited + parts + handed_over == record.latency_ns
        assert 0 <= handed_over <= deliver.queue_ns + deliver.service_ns


def test_the_run_folder_holds_what_is_needed_to_judge_and_repeat_it(done: Path) -> None:
    names = {path.name for path in run_folder(done).iterdir()}
    assert names == {
        "summary.json",
        "frames.arrow",
        "device.arrow",
        "config.yaml",
        "environment.json",
        "report.html",
    }
    assert main(["config", "check", str(run_folder(done) / "config.yaml")]) == 0


def test_libraries_stay_within_their_threads(done: Path) -> None:
    summary = json.loads((run_folder(done) / "summary.json").read_text())
    assert summary["environment"]["threads"] == {
        "workers": 2,
        "sources": 1,
        "opencv": 1,
        "decoder": 1,
        "inference": 1,
        "inference_requests": 2,
    }


def test_threads_of_a_run_are_bounded_by_what_the_configuration_grants(
    tmp_path: Path,
) -> None:
    """Four sources on two slots: workers, sources and a few that only wait."""
    streams = [
        {
            "id": f"scene-{n}",
            "source": {"uri": SCENE, "pace": "fast", "loop": True},
            "deadline": "10s",
            "queue": {"overflow": "block"},
        }
        for n in range(4)
    ]
    config = write_config(
        tmp_path, streams=streams, run={"duration": "2s"}, sinks=[{"kind": "null"}]
    )
    done = edgepipe("run", str(config), "--json")
    summary = json.loads(done.stdout)
    cores, workers = os.cpu_count() or 1, 2 + len(streams)
    threads = summary["process"]["threads"]
    # The main thread, the timer, two logs, the sensors, and two of libraries.
    assert threads["end"] <= threads["start"] <= cores + workers + 7


def test_a_real_recording_with_several_streams_of_unequal_importance(
    tmp_path: Path,
) -> None:
    streams = [
        {
            "id": name,
            "source": {"uri": "sample:bikes", "pace": "fast"},
            "criticality": name,
            "deadline": "60s",
            "queue": {"overflow": "block"},
        }
        for name in ("critical", "background")
    ]
    path = write_config(tmp_path, streams=streams, model={"path": "nanodet-g"})
    assert main(["run", str(path)]) == 0
    summary = json.loads((run_folder(tmp_path) / "summary.json").read_text())
    for stream in summary["streams"].values():
        assert stream["captured"] == stream["completed"] == 250
    # With a minute for each frame nobody has to give way.
    delivered = Counter(line["stream"] for line in results(tmp_path))
    assert delivered == {"critical": 250, "background": 250}


@pytest.mark.parametrize("fuse", [True, False])
def test_fused_and_unfused_steps_give_the_same_results(
    tmp_path: Path, done: Path, fuse: bool
) -> None:
    config = write_config(tmp_path, scheduler={"fuse": fuse, "policy": "fifo"})
    main(["run", str(config)])
    objects = [line["objects"] for line in results(tmp_path)]
    assert objects == [line["objects"] for line in results(done)]


def test_an_overloaded_camera_drops_frames_with_reasons_and_stays_fresh(
    tmp_path: Path,
) -> None:
    """1000 large pictures a second arrive: most are dropped, none comes late."""
    streams = [
        {
            "id": "scene",
            "source": {"uri": "synthetic:?fps=1000&frames=2000&width=1920&height=1080"},
            "deadline": "60ms",
        }
    ]
    main(["run", str(write_config(tmp_path, streams=streams))])
    summary = json.loads((run_folder(tmp_path) / "summary.json").read_text())
    stream = summary["streams"]["scene"]
    assert stream["captured"] == 2000
    assert stream["completed"] + stream["late"] == len(results(tmp_path))
    assert sum(stream["dropped"].values()) > 500
    assert set(stream["dropped"]) <= {"overflow", "doomed", "stale", "expired"}
    assert stream["failed"] == {}
    assert summary["ledger"]["balanced"] is True
    log = read_frames(run_folder(tmp_path) / "frames.arrow")
    too_late = ("doomed", "stale", "expired")
    assert all(r.short_ns > 0 for r in log.records() if r.reason in too_late)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_drains_the_pipeline_and_the_books_still_balance(
    tmp_path: Path, number: int, code: int
) -> None:
    streams = [{"id": "scene", "source": {"uri": SCENE, "loop": True}}]
    config = write_config(tmp_path, streams=streams)
    process = subprocess.Popen(
        [sys.executable, "-m", "edgepipe", "run", str(config)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("run folder"):
            break
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == code
    summary = json.loads((run_folder(tmp_path) / "summary.json").read_text())
    assert summary["ledger"]["balanced"] is True
    assert summary["streams"]["scene"]["in_flight"] == 0


def bad_inputs(folder: Path) -> dict[str, str]:
    (folder / "text.mp4").write_text("this is no film\n")
    (folder / "empty.mp4").touch()
    (folder / "no-images").mkdir()
    return {
        "missing.mp4": "no such file",
        "text.mp4": "text.mp4",
        "empty.mp4": "empty",
        "no-images": "no images",
    }


@pytest.mark.parametrize("name", ["missing.mp4", "text.mp4", "empty.mp4", "no-images"])
def test_input_that_cannot_be_read_is_one_line_and_exit_2(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    message = bad_inputs(tmp_path)[name]
    streams = [{"id": "a", "source": {"uri": str(tmp_path / name)}}]
    assert main(["run", str(write_config(tmp_path, streams=streams))]) == 2
    err = capfd.readouterr().err
    assert err.startswith("edgepipe: ")
    assert err.count("\n") == 1
    assert message in err
    assert name in err


def model_of(folder: Path, head: str) -> Path:
    """A user's model: a copy of the small one that ships, with its own card."""
    from edgepipe.models import zoo

    card = zoo.card_path("scene-tiny")
    (folder / "mine.onnx").write_bytes((card.parent / "int8.onnx").read_bytes())
    text = card.read_text()
    kind = next(line for line in text.splitlines() if line.strip().startswith("kind:"))
    text = text.replace(kind, f"  kind: {head}").replace("int8.onnx", "mine.onnx")
    (folder / "mine.yaml").write_text(text)
    return folder / "mine.onnx"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("missing.onnx", "no such file"),
        ("nanodet-h", "nor one of nanodet-g, scene-tiny"),
        ("lonely.onnx", "has no model card"),
        ("odd.onnx", "hydra"),
        ("text.onnx", "text.onnx"),
    ],
)
def test_a_model_that_cannot_be_used_is_one_line_and_exit_2(
    tmp_path: Path, model: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lonely.onnx").write_bytes(b"\x08\x07")
    model_of(tmp_path, "hydra").rename(tmp_path / "odd.onnx")
    card = (tmp_path / "mine.yaml").read_text()
    (tmp_path / "odd.yaml").write_text(card.replace("mine.onnx", "odd.onnx"))
    (tmp_path / "text.onnx").write_text("no network\n")
    text_card = card.replace("mine.onnx", "text.onnx").replace("hydra", "distances")
    (tmp_path / "text.yaml").write_text(text_card)
    path = str(tmp_path / model) if model.endswith(".onnx") else model
    assert main(["run", str(write_config(tmp_path, model={"path": path}))]) == 2
    err = capfd.readouterr().err
    assert err.startswith("edgepipe: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_users_own_model_runs_from_its_path(tmp_path: Path, done: Path) -> None:
    path = model_of(tmp_path, "distances")
    from edgepipe.models import zoo

    # The same bytes, input and head: the gate that ships is theirs as well.
    gate = zoo.card_path("scene-tiny").parent / "int8.gate.json"
    path.with_suffix(".gate.json").write_bytes(gate.read_bytes())
    main(["run", str(write_config(tmp_path, model={"path": str(path)}))])
    objects = [line["objects"] for line in results(tmp_path)]
    assert objects == [line["objects"] for line in results(done)]


def test_all_sinks_take_the_same_frames(tmp_path: Path) -> None:
    sinks = [
        {"kind": "jsonl", "path": str(tmp_path / "results.jsonl")},
        {"kind": "mot", "path": "tracks.txt"},
        {"kind": "coco", "path": "coco.json"},
        {"kind": "video", "path": "annotated.mp4"},
        {"kind": "null"},
    ]
    main(["run", str(write_config(tmp_path, sinks=sinks))])
    run = run_folder(tmp_path)
    lines = results(tmp_path)
    tracked = [o for line in lines for o in line["objects"] if o["track_id"]]
    assert len((run / "tracks.txt").read_text().splitlines()) == len(tracked)
    found = [o for line in lines for o in line["objects"]]
    assert len(json.loads((run / "coco.json").read_text())) == len(found)
    capture = cv2.VideoCapture(str(run / "annotated.mp4"))
    frames = 0
    while capture.read()[0]:
        frames += 1
    assert frames == len(lines) == 150


def test_bench_repeats_a_short_recording_for_as_long_as_asked(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    words = ["--set", "run.warm_up=0s", "--duration", "3s", "--json"]
    words += ["--set", "streams[0].source.uri='synthetic:?frames=30'"]
    done = edgepipe("bench", "-c", str(config), *words)
    summary = json.loads(done.stdout)
    stream = summary["streams"]["scene"]
    assert done.returncode == {"VALID": 0, "INVALID": 1}[summary["verdict"]]
    assert stream["captured"] > 30
    assert summary["duration_s"] == pytest.approx(3.0)


def test_a_signal_before_the_run_has_begun_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Pipeline) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Pipeline, "warm_up", interrupted)
    with pytest.raises(SystemExit) as caught:
        main(["run", str(write_config(tmp_path))])
    assert caught.value.code == 143
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_working_directory_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    config = write_config(tmp_path, telemetry={})
    assert main(["run", str(config)]) == 0
    assert "cannot make a run folder there" in caplog.text
    (run,) = (tmp_path / "tmp").glob("edgepipe-runs-*/*")
    assert (run / "summary.json").exists()


def test_a_place_for_runs_that_was_chosen_is_not_replaced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    chosen = {"dir": str(tmp_path / "taken")}
    assert main(["run", str(write_config(tmp_path, telemetry=chosen))]) == 2
    assert "taken: cannot make a run folder there" in capfd.readouterr().err


def test_a_wrong_input_leaves_no_run_folder(tmp_path: Path) -> None:
    streams = [{"id": "a", "source": {"uri": str(tmp_path / "missing.mp4")}}]
    assert main(["run", str(write_config(tmp_path, streams=streams))]) == 2
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_sink_that_would_write_over_its_input_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clip = tmp_path / "clip.png"
    cv2.imwrite(str(clip), np.zeros((64, 64, 3), np.uint8))
    before = clip.read_bytes()
    config = write_config(
        tmp_path,
        streams=[{"id": "a", "source": {"uri": str(clip)}}],
        sinks=[{"kind": "video", "path": str(clip)}],
    )
    assert main(["run", str(config)]) == 2
    err = capfd.readouterr().err
    assert "sinks[0].path: " in err
    assert err.rstrip().endswith("is the input of a stream")
    assert clip.read_bytes() == before


def test_a_disk_that_is_full_at_the_end_costs_the_folder_and_not_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: RunFolder, summary: object) -> Path:
        raise EdgepipeError("summary.json: No space left on device")

    monkeypatch.setattr(RunFolder, "write_summary", full)
    assert main(["run", str(write_config(tmp_path)), "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["streams"]["scene"]["completed"] == 150


def test_a_reader_that_goes_away_does_not_keep_a_run_from_its_work(
    tmp_path: Path,
) -> None:
    command = f"{sys.executable} -m edgepipe run {write_config(tmp_path)} | true"
    subprocess.run(["bash", "-c", command], check=True, timeout=60)
    assert len(results(tmp_path)) == 150


@pytest.mark.parametrize(
    ("stdout", "said"), [("| true", ""), ("> /dev/full", "cannot be printed")]
)
def test_a_verdict_reaches_whoever_cannot_read_the_numbers(
    tmp_path: Path, stdout: str, said: str
) -> None:
    config = write_config(tmp_path, run={"duration": "1s", "warm_up": "0s"})
    streams = "--set streams[0].source.pace=realtime"  # 50 frames claim no p99
    command = f"{sys.executable} -m edgepipe bench {config} {streams} --json {stdout}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
