"""What became of others over time, with real files and the real engine."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import live_memory
import pytest
from live.memory import MIB

PROGRAM = """
import os, sys, threading
import edgepipe
with edgepipe.Pipeline.from_config(sys.argv[1]) as pipeline:
    for number, frame in enumerate(pipeline):
        if number == 200:
            print(len(os.listdir("/proc/self/task")), threading.active_count())
            break
"""


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def grown(counts: Sequence[int]) -> int:
    """Between the halves; a file that is opened again has two for a moment."""
    half = len(counts) // 2
    return min(counts[half:]) - min(counts[:half])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_libraries_bring_hardly_any_threads_of_their_own(
    cases: Path, tmp_path: Path, engine: str
) -> None:
    expected = read(cases / "B10/expected.json")
    config = live_memory.config_of(cases / "A21/clip.mp4", expected["workers"])
    config["model"]["engine"] = engine
    path = tmp_path / "four.yaml"
    path.write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    everything, own = map(int, done.stdout.split())
    assert everything <= len(os.sched_getaffinity(0)) + own + 4


@pytest.mark.slow
def test_a_recording_that_is_played_for_long_makes_nothing_grow(cases: Path) -> None:
    """The first part of it; ``benchmarks/live_memory.py`` plays all of it."""
    expected = read(cases / "B15/expected.json")
    clip = (cases / "B15" / expected["clip"].split()[0]).resolve()
    held = live_memory.play(clip, expected["sources"], 600, settled=200, each=40)
    assert held.frames[-1] == 600
    assert held.grown_bytes / MIB < expected["rss_growth_mb_after_frame_2000"]
    assert grown(held.descriptors) <= expected["fd_growth"]
    assert grown(held.threads) <= expected["thread_growth"]
