"""How long an engine takes, by a clock that the test moves."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.profile import TIMED_RUNS, WARM_UP_RUNS, batch_times_ns, warm_up
from edgepipe.telemetry.clock import ManualClock


class Timed:
    """An engine that takes 10 ns and 5 more for each image; now and then far more."""

    info = EngineInfo("timed", "1", "none", "int8", "int8", 1, 2, "a test")

    def __init__(self, clock: ManualClock) -> None:
        self.calls: list[tuple[int, int]] = []
        self._clock = clock

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        self.calls.append((len(images), request))
        disturbed = 1000 if len(self.calls) % 4 == 0 else 0
        self._clock.advance(10 + 5 * len(images) + disturbed)
        return {}

    def renew(self, request: int) -> None:
        """There is nothing to make anew."""

    def close(self) -> None:
        """Nothing to release."""


def test_every_request_is_warmed_with_every_size(nanodet: ModelCard) -> None:
    engine = Timed(ManualClock())
    warm_up(engine, nanodet, 2)
    assert sorted(set(engine.calls)) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert len(engine.calls) == 4 * WARM_UP_RUNS


def test_what_else_the_machine_did_is_in_no_figure(nanodet: ModelCard) -> None:
    clock = ManualClock()
    engine = Timed(clock)
    assert batch_times_ns(engine, nanodet, 3, clock) == (15, 20, 25)
    assert [size for size, _ in engine.calls] == [1, 2, 3] * TIMED_RUNS
