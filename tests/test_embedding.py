"""edgepipe inside another program: a loop over a pipeline."""

import os
import threading
from pathlib import Path

import pytest

import edgepipe

FAST = (
    "streams[0].source.pace=fast",
    "streams[0].deadline=10s",
    "streams[0].queue.overflow=block",
)
TWENTY = ("streams[0].source.uri=synthetic:?seed=1&frames=20", *FAST)
ENDLESS = ("streams[0].source.uri=synthetic:?seed=1", *FAST)


def open_(overrides: tuple[str, ...], folder: Path) -> edgepipe.Pipeline:
    return edgepipe.Pipeline.from_config("synthetic", overrides, folder=folder)


def test_a_loop_over_a_pipeline_gets_every_delivered_frame(tmp_path: Path) -> None:
    with open_(TWENTY, tmp_path) as pipeline:
        frames = list(pipeline)
        assert pipeline.runtime.irregularities() == []
    assert [frame.sequence for frame in frames] == list(range(20))
    assert all(frame.detections is not None for frame in frames)
    assert all(frame.tensor is None for frame in frames)


def test_leaving_the_loop_stops_the_pipeline(tmp_path: Path) -> None:
    with open_(ENDLESS, tmp_path) as pipeline:
        for frame in pipeline:
            if frame.sequence == 3:
                break
        assert pipeline.runtime.stop() == []
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("edgepipe")]


def test_leaving_the_with_block_stops_a_loop_that_was_not_left(tmp_path: Path) -> None:
    with open_(ENDLESS, tmp_path) as pipeline:
        loop = iter(pipeline)
        next(loop)
    assert pipeline.runtime.stop() == []
    assert list(loop) == []


def test_an_interrupt_in_the_loop_stops_the_pipeline(tmp_path: Path) -> None:
    pipeline = open_(ENDLESS, tmp_path)

    def interrupted() -> None:
        with pipeline:
            for _ in pipeline:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pipeline.runtime.stop() == []


def test_a_pipeline_runs_once(tmp_path: Path) -> None:
    with open_(TWENTY, tmp_path) as pipeline:
        list(pipeline)
        with pytest.raises(edgepipe.StoppedError):
            list(pipeline)


def test_a_mistake_is_found_before_the_loop(tmp_path: Path) -> None:
    with pytest.raises(edgepipe.ConfigError, match="deadline"):
        open_(("streams[0].deadline=33",), tmp_path)


def test_results_can_only_be_taken_where_somebody_keeps_them(tmp_path: Path) -> None:
    from edgepipe.configs import load

    config = load.read("synthetic", list(TWENTY)).config
    with (
        edgepipe.Pipeline(config, tmp_path) as pipeline,
        pytest.raises(TypeError, match="from_config"),
    ):
        iter(pipeline)


def test_workers_run_where_the_configuration_says(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    where = f"run.placement.cpu.cpus={cpu}"
    with open_((*TWENTY, where), tmp_path) as pipeline:
        list(pipeline)
    assert pipeline.runtime.placed == {
        "edgepipe-cpu-0": f"cpus {cpu}",
        "edgepipe-cpu-1": f"cpus {cpu}",
    }
