"""The same events give the same decisions: anywhere, at any time, by any name."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.simulate import simulate
from tests.scheduler.small_scenarios import digests, eventful


def digests_of(python: str, root: Path, hash_seed: str) -> list[str]:
    """The same, computed by another process."""
    paths = os.pathsep.join([str(root / "src"), str(root)])
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
    command = [python, "-m", "tests.scheduler.small_scenarios"]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, check=True)
    return done.stdout.decode().split()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """What this process decides."""
    return digests()


def test_a_digest_tells_one_schedule_from_another(expected: list[str]) -> None:
    policies = list(BY_NAME)
    assert expected[policies.index("fifo")] != expected[policies.index("slack")]
    other = simulate(eventful()[0], BY_NAME["slack"], seed=8, digest=True).digest
    assert other not in expected


def test_a_second_run_in_the_same_process_decides_the_same(expected: list[str]) -> None:
    assert digests() == expected


@pytest.mark.parametrize("hash_seed", ["0", "1", "99"])
def test_another_process_decides_the_same(
    hash_seed: str, root: Path, expected: list[str]
) -> None:
    assert digests_of(sys.executable, root, hash_seed) == expected


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_another_python_decides_the_same(
    version: str, root: Path, expected: list[str]
) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-V"], capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here")
    assert digests_of(python, root, "0") == expected


@pytest.mark.parametrize("policy", BY_NAME)
def test_recording_a_run_changes_nothing(policy: str) -> None:
    scenario = replace(eventful()[1], duration_ns=500_000_000)
    kept = simulate(scenario, BY_NAME[policy], seed=3, digest=True)
    streamed = simulate(
        scenario, BY_NAME[policy], seed=3, on_record=lambda _: None, digest=True
    )
    assert streamed.digest == kept.digest
