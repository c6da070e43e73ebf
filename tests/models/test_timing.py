"""Times are taken part by part; what there is not is not measured."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.ceiling import OPERATIONS, RUNS, ceilings
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.load import LOADERS
from edgepipe.models.shape_profile import ShapeProfile
from edgepipe.models.timing import NO_COPIES, measure
from edgepipe.telemetry.clock import Clock, ManualClock, MonotonicClock

IMAGES: NDArray[np.uint8] = np.zeros((2, 8, 8, 3), np.uint8)
MS = 1_000_000


class Timed:
    """An engine that takes 5 ms to infer, 1 to begin and 6 more to end."""

    info = EngineInfo("timed", "1", "none", "int8", "int8", 1, 1, "a test")
    profile = ShapeProfile("x", (1, 8, 8, 3), (1, 8, 8, 3), (2, 8, 8, 3))

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def _take(self, ms: int) -> None:
        self._clock.advance(ms * MS)

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        assert len(images) == 2
        assert request == 0
        self._take(5)
        return {}

    def submit(self, images: NDArray[np.uint8], request: int = 0) -> None:
        assert len(images) == 2
        assert request == 0
        self._take(1)

    def wait(self, request: int = 0) -> Outputs:
        assert request == 0
        self._take(6)
        return {}

    def cancel(self, request: int = 0) -> None:
        raise NotImplementedError

    def renew(self, request: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class OnDevice(Timed):
    """One that knows its phases."""

    def phases_ns(self, request: int = 0) -> Mapping[str, int]:
        assert request == 0
        return {"h2d": MS, "compute": 3 * MS, "d2h": 2 * MS}


def test_each_part_is_timed_and_copies_that_there_are_not_are_not() -> None:
    clock = ManualClock()
    timing = measure(Timed(clock), IMAGES, 120 * MS, clock)
    assert timing.runs == 10
    medians = {name: part.percentiles["p50"] for name, part in timing.parts.items()}
    assert medians == {
        "latency": 7 * MS,
        "enqueue": MS,
        "h2d": None,
        "compute": 5 * MS,
        "d2h": None,
    }
    assert timing.parts["h2d"].reason == NO_COPIES
    assert timing.images_per_s == pytest.approx(400)


def test_a_device_tells_its_own_phases() -> None:
    clock = ManualClock()
    parts = measure(OnDevice(clock), IMAGES, 60 * MS, clock).parts
    assert [parts[name].max for name in ("h2d", "compute", "d2h")] == [
        MS,
        3 * MS,
        2 * MS,
    ]


def test_there_is_one_run_however_short_the_time() -> None:
    clock = ManualClock()
    assert measure(Timed(clock), IMAGES, 0, clock).runs == 1


def test_percentiles_are_given_only_with_enough_runs() -> None:
    clock = ManualClock()
    few = measure(Timed(clock), IMAGES, 28 * 12 * MS, clock).parts["latency"]
    many = measure(Timed(clock), IMAGES, 29 * 12 * MS, clock).parts["latency"]
    assert (few.n, few.percentiles["p90"]) == (28, None)
    assert (many.n, many.percentiles["p90"]) == (29, 7 * MS)


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_the_ceiling_is_what_the_same_engine_reaches(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepipe.models.ceiling.LEAST_NS", 0)
    monkeypatch.setattr("edgepipe.models.ceiling.RUNS", 1)
    opened: list[str] = []

    def load(card: ModelCard, file: object) -> object:
        engine = LOADERS[name](card, card.files[0], 1, 1, "a test", 1)
        opened.append(engine.info.executed_precision)
        return engine

    found = ceilings(load, "int8", MonotonicClock())  # type: ignore[arg-type]
    assert sorted(found) == ["fp32", "int8"]
    assert all(isinstance(rate, float) and rate > 1e9 for rate in found.values())
    if name == "openvino":
        assert opened[0] == "f32"
        assert all(each.startswith("int8 (4 of 5") for each in opened[1:])


def test_a_ceiling_that_cannot_be_measured_says_why() -> None:
    from edgepipe.errors import EngineError

    def load(card: object, file: object) -> object:
        raise EngineError("no such processor")

    clock: Clock = ManualClock()
    found = ceilings(load, "fp32", clock)  # type: ignore[arg-type]
    assert found == {"fp32": "no such processor"}
    assert OPERATIONS > 8e9
    assert RUNS > 1
