"""How long an engine takes for one image, and for a batch."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.self_check import probe_image
from edgepipe.telemetry.clock import Clock

WARM_UP_RUNS = 5
"""The first and second run of a request are up to eight times slower than the rest."""
TIMED_RUNS = 9


def warm_up(engine: Engine, card: ModelCard, batch_max: int) -> None:
    """Run every request with every size of batch until it is as fast as it gets."""
    for size in range(1, batch_max + 1):
        images = _images(card, size)
        for request in range(engine.info.requests):
            for _ in range(WARM_UP_RUNS):
                engine.infer(images, request)


def batch_times_ns(
    engine: Engine, card: ModelCard, batch_max: int, clock: Clock
) -> tuple[int, ...]:
    """Time of a batch of 1, 2, ... ``batch_max`` images on a warm engine.

    The shortest of a few runs: what else the machine did is in all the others. The
    sizes take turns, so that a machine that changes its speed changes it for all.
    """
    batches = [_images(card, size) for size in range(1, batch_max + 1)]
    best_ns = [0] * batch_max
    for run in range(TIMED_RUNS):
        for index, images in enumerate(batches):
            begun_ns = clock.now_ns()
            engine.infer(images)
            took_ns = clock.now_ns() - begun_ns
            best_ns[index] = took_ns if not run else min(best_ns[index], took_ns)
    return tuple(best_ns)


def _images(card: ModelCard, size: int) -> NDArray[np.uint8]:
    return np.repeat(probe_image(card.height, card.width), size, axis=0)
