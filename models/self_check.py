"""Whether an INT8 engine computes what its network should, found out before the start.

A library can compute INT8 wrong on one kind of processor and right on another, without
any error. Nothing but the truth finds that, and the truth is the FP32 file.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.heads import suppresses

MOST_DIFFERENCE = 0.8
"""Largest difference of INT8 from FP32, relative to FP32's answer. Six ways of
quantising NanoDet-g give at most 0.54, an engine that computed rubbish gave 1.5 and
more, and one that does not see the image gives 1."""
LEAST_ANSWER = 0.05
"""An output that FP32 itself moves by less than this says nothing."""
_GREY = 114
_RECTANGLES = 100
_SEED = 1


def grey_image(card: ModelCard) -> NDArray[np.uint8]:
    """(1, height, width, 3): an image in which there is nothing."""
    return np.full((1, card.height, card.width, 3), _GREY, np.uint8)


def require_same_answer(
    tested: Engine, reference: Engine, card: ModelCard, names: tuple[str, str]
) -> None:
    """Compare what two engines make of a drawn image, as against a grey one.

    The difference of the two is the network's answer to what is in the image: constant
    outputs and biases cancel out. An engine fails if one of its outputs answers by more
    than ``MOST_DIFFERENCE`` otherwise than the reference, in the root of the squares,
    with any size of batch that it runs in one go: each is a network of its own. Where
    the network ranks its boxes itself, a hair decides on their order: then each column
    is sorted before it is compared.

    Args:
        tested: The INT8 engine.
        reference: The same network in FP32.
        card: Says how large the images are and which outputs there are.
        names: What to call the two files in the error.

    Raises:
        EngineError: They compute different things, or an engine failed.
    """
    (truth,) = _answers(reference, card, 1)
    for ours in _answers(tested, card, tested.info.batch_max):
        for name, wanted in truth.items():
            if np.abs(wanted).max() < LEAST_ANSWER:
                continue
            wrong = np.linalg.norm(ours[name] - wanted) / np.linalg.norm(wanted)
            # Written so that NaN fails, too.
            if not wrong <= MOST_DIFFERENCE:
                raise EngineError(
                    f"{tested.info.engine} computes rubbish from {names[0]} on this "
                    f"machine: output {name!r} for a test image is {wrong:.0%} off "
                    f"from that of {names[1]} (at most {MOST_DIFFERENCE:.0%}); use "
                    f"precision fp32 or another engine"
                )


def probe_image(height: int, width: int) -> NDArray[np.uint8]:
    """(1, height, width, 3): a hundred rectangles over each other, large to small.

    Edges of all sizes and all colours, as in a photograph: networks see much in it that
    they do not see in noise. The same on every machine for the same size.
    """
    random = np.random.default_rng(_SEED)
    image = np.full((1, height, width, 3), _GREY, np.uint8)
    for number in range(_RECTANGLES):
        largest = 0.6 * min(height, width) * (1 - number / _RECTANGLES) ** 2
        size = 3 + largest * random.random()
        high, wide = (int(size * (0.5 + random.random())) for _ in range(2))
        top = int(random.integers(-high // 2, height))
        left = int(random.integers(-wide // 2, width))
        colour = random.integers(0, 256, 3)
        image[0, max(top, 0) : top + high, max(left, 0) : left + wide] = colour
    return image


def _answers(
    engine: Engine, card: ModelCard, batch_max: int
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """By how much the drawn image changes each output, for each size of batch.

    It is the last image of a batch that counts.
    """
    # An engine's outputs are its own memory, until the next call.
    grey = {
        name: _in_order(card, array[0]).copy()
        for name, array in _infer(engine, card, grey_image(card))
    }
    drawn = probe_image(card.height, card.width)
    for size in range(1, batch_max + 1):
        batch = np.repeat(drawn, size, axis=0)
        yield {
            name: _in_order(card, out[-1]) - grey[name]
            for name, out in _infer(engine, card, batch)
        }


def _in_order(card: ModelCard, output: NDArray[np.float32]) -> NDArray[np.float32]:
    """An output of one image, in an order that does not depend on ranks."""
    ranked = not suppresses(card.head) and output.ndim
    return np.sort(output, axis=0) if ranked else output


def _infer(
    engine: Engine, card: ModelCard, images: NDArray[np.uint8]
) -> list[tuple[str, NDArray[np.float32]]]:
    """The card's outputs by name."""
    outputs = engine.infer(images)
    return [(name, outputs[name]) for name in card.outputs]
