"""Runs whose camera is not there: what they say, what they write, how they end."""

import json
from pathlib import Path

import pytest

from edgepipe.cli import main

SECRET = "hunter2"
ADDRESS = f"rtsp://admin:{SECRET}@127.0.0.1:1/live?password={SECRET}"
"""Nobody listens there."""


def config(tmp_path: Path, more: str = "") -> str:
    """A camera that is not there beside a stream that is."""
    path = tmp_path / "robot.yaml"
    path.write_text(
        "version: 1\nstreams:\n"
        f"  - {{id: dead, source: {{uri: '{ADDRESS}'{more}}}}}\n"
        "  - {id: drawn, source: {uri: 'synthetic:?frames=20'}}\n"
        f"telemetry: {{dir: {tmp_path / 'runs'}}}\n"
        "run: {duration: 1s}\n"
    )
    return str(path)


def test_a_camera_that_is_required_ends_the_run_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", config(tmp_path, ", required: true")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "edgepipe: rtsp://***@127.0.0.1:1/live?password=***: connection refused"
    )
    assert not list((tmp_path / "runs").glob("*/summary.json"))


def test_one_that_is_not_required_is_waited_for_and_no_password_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    main(["run", config(tmp_path)])
    (folder,) = (tmp_path / "runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["streams"]["drawn"]["completed"] > 0
    dead = summary["streams"]["dead"]["source"]
    assert (dead["uri"], dead["state"]) == (
        "rtsp://***@127.0.0.1:1/live?password=***",
        "stopped",
    )
    written = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "summary.json", "report.html", "frames.arrow"} <= written
    for path in folder.iterdir():
        assert SECRET.encode() not in path.read_bytes()
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err + caplog.text
    assert "backing off: connection refused; trying again in" in caplog.text


def test_a_configuration_is_shown_without_its_passwords(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "show", config(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "rtsp://***@127.0.0.1:1/live?password=***" in shown
    assert SECRET not in shown
