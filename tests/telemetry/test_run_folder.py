import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from edgepipe.errors import EdgepipeError
from edgepipe.telemetry.run_folder import RunFolder

NOW = datetime(2025, 3, 1, 9, 30, 5, tzinfo=timezone.utc)


def test_a_run_folder_is_named_by_its_time_and_command(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "deep" / "runs", "bench", NOW)
    assert folder.path == tmp_path / "deep" / "runs" / "20250301-093005-bench"
    assert folder.path.is_dir()


def test_runs_that_begin_in_one_second_get_a_folder_each(tmp_path: Path) -> None:
    folders = [RunFolder.create(tmp_path, "bench", NOW) for _ in range(3)]
    assert [folder.path.name for folder in folders] == [
        "20250301-093005-bench",
        "20250301-093005-bench-2",
        "20250301-093005-bench-3",
    ]


def test_a_file_in_the_way_is_no_run_folder(tmp_path: Path) -> None:
    (tmp_path / "20250301-093005-run").write_text("")
    assert RunFolder.create(tmp_path, "run", NOW).path.name.endswith("-run-2")


def test_a_parent_that_cannot_hold_folders_is_named_in_one_line(tmp_path: Path) -> None:
    parent = tmp_path / "runs"
    parent.write_text("a file")
    with pytest.raises(EdgepipeError) as caught:
        RunFolder.create(parent / "inner", "bench", NOW)
    assert str(caught.value).startswith(f"{parent}/inner: cannot make a run folder")
    assert "\n" not in str(caught.value)


def test_every_file_lies_where_it_should_and_nothing_unfinished_is_left(
    tmp_path: Path,
) -> None:
    folder = RunFolder.create(tmp_path, "bench", NOW)
    folder.write_summary({"verdict": "VALID", "stream": "tür"})
    folder.write_environment({"python": "3.11"})
    folder.write_config("version: 1\n")
    folder.write_report("<!doctype html>\n")
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "config.yaml",
        "environment.json",
        "report.html",
        "summary.json",
    ]
    text = (folder.path / "summary.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"verdict": "VALID", "stream": "tür"}
    assert folder.frames.name == "frames.arrow"


def test_a_figure_that_is_no_number_is_not_written_as_one(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "bench", NOW)
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.write_summary({"p99": float("nan")})
    assert list(folder.path.iterdir()) == []


def test_a_folder_that_went_away_is_one_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "bench", NOW)
    folder.path.rmdir()
    with pytest.raises(
        EdgepipeError, match=r"config\.yaml: cannot be written: No such"
    ):
        folder.write_config("version: 1\n")
