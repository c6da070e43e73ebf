"""``edgepipe doctor`` without a source, in a process of its own."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgepipe.cli import main
from edgepipe.commands.doctor_machine import exit_code, painted
from edgepipe.commands.session import Request
from edgepipe.telemetry.machine.finding import Area, Finding, Level
from edgepipe.telemetry.machine.text import render_machine
from edgepipe.telemetry.machine.verdict import fitness

from .telemetry.boards import Boards


def doctor(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "edgepipe", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_this_machine_is_told_in_text_and_as_json() -> None:
    text = doctor()
    assert (text.returncode, text.stderr) == (0, "")
    assert "fit for a bench" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80
    told = json.loads(doctor("--json").stdout)
    assert list(told) == ["schema", "machine", "findings", "bench"]
    assert told["schema"] == "edgepipe.machine/1"
    levels = {level.value for level in Level}
    assert {each["level"] for each in told["findings"]} <= levels
    assert told["bench"]["fit"] is (told["bench"]["reasons"] == [])


def test_another_machine_s_files_are_examined(boards: Boards) -> None:
    root = boards("orin-nano-super-jp6.thermal").root
    run = doctor("--strict", "--root", str(root))
    assert (run.returncode, run.stderr) == (1, "")
    assert "VDD_IN, the module's input" in run.stdout
    assert "JetPack 6.2, L4T 36.4.4" in run.stdout
    told = json.loads(doctor("--json", "--root", str(root)).stdout)
    assert list(told["machine"]) == [
        "identity",
        "clocks",
        "heat",
        "power",
        "processors",
        "memory",
        "timing",
        "storage",
        "realtime",
        "software",
    ]
    reasons = "\n".join(told["bench"]["reasons"])
    assert "heat, throttling: now: cpu0 thermal (cpufreq-cpu0=7" in reasons


def test_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_strict_says_by_its_exit_code_what_its_verdict_says() -> None:
    run = doctor("--json", "--strict")
    fit = json.loads(run.stdout)["bench"]["fit"]
    assert run.returncode == (0 if fit else 1)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m edgepipe doctor --json | head -c 1"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("levels", "usual", "strict"),
    [
        ([(Area.CLOCKS, Level.OK), (Area.CLOCKS, Level.NOTE)], 0, 0),
        ([(Area.POWER, Level.WARNING)], 0, 0),
        ([(Area.CLOCKS, Level.WARNING)], 0, 1),
        ([(Area.SOFTWARE, Level.PROBLEM)], 1, 1),
    ],
)
def test_exit_codes(
    levels: Sequence[tuple[Area, Level]], usual: int, strict: int
) -> None:
    found = [Finding(area, "x", level, "y") for area, level in levels]
    fit = fitness(found)
    assert exit_code(found, fit, strict=False) == usual
    assert exit_code(found, fit, strict=True) == strict


def test_colours_change_no_letter() -> None:
    found = [
        Finding(Area.HEAT, "throttling", Level.WARNING, "now", "slow"),
        Finding(Area.REALTIME, "kernel", Level.OK, "PREEMPT_RT"),
        Finding(Area.SOFTWARE, "engines", Level.PROBLEM, "none", "nothing runs"),
    ]
    text = render_machine(found, fitness(found))
    coloured = painted(text)
    assert "\033[33m! throttling      \033[0mnow" in coloured
    assert "\033[1mreal-time\033[0m\n" in coloured
    assert re.sub(r"\033\[\d+m", "", coloured) == text


def test_a_strict_bench_takes_the_reasons_into_its_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Request] = []

    def preflight(runs: Path, root: Path) -> list[str]:
        assert (runs, root) == (Path("elsewhere"), Path("/host"))
        return ["heat, throttling: now: gpu-throttle-alert 1 of 1"]

    def run_session(request: Request) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr("edgepipe.telemetry.machine.here.preflight", preflight)
    monkeypatch.setattr("edgepipe.commands.session.run_session", run_session)
    words = ["bench", "synthetic", "--set", "telemetry.dir=elsewhere"]
    words += ["--set", "telemetry.sensors.root=/host"]
    assert main(words) == main([*words, "--strict"]) == 0
    assert [len(request.preflight) for request in asked] == [0, 1]
    said = capsys.readouterr().err
    assert said == f"edgepipe: not fit for a bench: {asked[1].preflight[0]}\n"


def test_options_of_the_other_kind_are_mistakes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--seconds", "3"]) == 2
    assert main(["doctor", "synthetic:", "--strict"]) == 2
    assert main(["doctor", "synthetic:", "--root", "/"]) == 2
    assert main(["doctor", "--root", "/nowhere"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in err] == [
        "--seconds",
        "--strict",
        "--root",
        "--root",
    ]
