"""The command line: verbs, exit codes, and what goes where."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

import edgepipe
from edgepipe.cli import main
from edgepipe.commands.arguments import PACKAGED
from edgepipe.configs import load


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"edgepipe {edgepipe.__version__}\n"


@pytest.mark.parametrize("words", [[], ["fly"], ["config"], ["bench", "--fps", "3"]])
def test_wrong_usage_exits_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: edgepipe")


@pytest.mark.parametrize("words", ["20", "0s", "", "soon"])
def test_a_duration_that_is_none_is_refused_by_the_name_of_its_option(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "synthetic", "--duration", words]) == 2
    assert capsys.readouterr().err.startswith("edgepipe: --duration: ")


def test_the_help_names_every_configuration_that_ships() -> None:
    assert ", ".join(load.packaged()) == PACKAGED


def test_a_configuration_is_named_by_place_or_by_option_but_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "check", "-c", "demo"]) == 0
    assert main(["config", "check"]) == 2
    assert main(["config", "check", "demo", "-c", "default"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("edgepipe: name a configuration")
    assert err[1] == "edgepipe: two configurations given: demo and default"


def test_a_bug_exits_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("edgepipe.commands.config.load_config", broken)
    assert main(["config", "check", "demo"]) == 70
    assert "this is a bug in edgepipe" in caplog.text


@pytest.mark.parametrize("name", load.packaged())
def test_every_packaged_configuration_passes_its_check(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", name]) == 0
    assert capsys.readouterr().out.startswith(f"packaged {name}: ok (")


def test_all_problems_of_a_configuration_are_told_one_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(
        "version: 1\nstreams:\n  - {id: a, source: {uri: x}, fsp: 3}\nx: 1\n"
    )
    assert main(["config", "check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split(": ", 2)[1] for line in lines] == [f"{path}:3:31", f"{path}:4:1"]


def test_a_service_gets_the_exit_code_that_systemd_does_not_restart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "/nowhere.yaml", "--service"]) == 78
    assert main(["run", "/nowhere.yaml"]) == 2
    assert capsys.readouterr().err.count("/nowhere.yaml") == 2


def test_what_is_shown_can_be_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = ["--set", "streams[0].deadline=40ms"]
    assert main(["config", "show", "default", *change]) == 0
    path = tmp_path / "shown.yaml"
    path.write_text(capsys.readouterr().out)
    again = load.read(str(path))
    assert again.config.streams[0].deadline_ns == 40_000_000
    assert again.sha256 == load.read("default", ["streams[0].deadline=40ms"]).sha256


def test_the_schema_describes_the_packaged_configurations(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    for name in load.packaged():
        text = (root / "configs" / f"{name}.yaml").read_text(encoding="utf-8")
        jsonschema.validate(yaml.safe_load(text), schema)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m edgepipe config schema | head -c 1"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_public_names_exist_and_are_sorted() -> None:
    assert edgepipe.__all__ == sorted(edgepipe.__all__)
    assert all(hasattr(edgepipe, name) for name in edgepipe.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Frames'"):
        _ = edgepipe.Frames


def test_a_full_disk_is_one_line_and_no_bug_of_ours() -> None:
    command = f"{sys.executable} -m edgepipe config schema > /dev/full"
    run = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "No space left" in run.stderr
