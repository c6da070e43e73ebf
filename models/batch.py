"""What the CPU engines share: input checks and the outputs of a batch."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs


class BatchOutputs:
    """Collects the outputs of single images; memory is kept from call to call.

    For batches that an engine runs image by image.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.float32]] = {}

    def rows(self, name: str, n: int, one: NDArray[np.float32]) -> NDArray[np.float32]:
        """An (n, ...) array for outputs shaped like ``one``, which is (1, ...)."""
        array = self._arrays.get(name)
        if array is None or len(array) < n:
            array = np.empty((n, *one.shape[1:]), np.float32)
            self._arrays[name] = array
        return array[:n]

    def store(self, outputs: Outputs, index: int, n: int) -> Outputs:
        """Copy the outputs of image ``index`` of ``n`` and return the whole batch."""
        batch: dict[str, NDArray[np.float32]] = {}
        for name, one in outputs.items():
            batch[name] = self.rows(name, n, one)
            batch[name][index] = one[0]
        return batch


def require_images(images: NDArray[np.uint8], height: int, width: int) -> None:
    """Refuse a batch of another shape than the network was loaded for.

    Raises:
        EngineError: Names the expected and the given shape.
    """
    shape = images.shape
    if len(shape) != 4 or shape[0] < 1 or shape[1:] != (height, width, 3):
        raise EngineError(f"expected images (n, {height}, {width}, 3), got {shape}")


def require_input(card: ModelCard, shapes: Mapping[str, list[int | None]]) -> None:
    """Check the model's inputs, by name, against the card; None is a free dimension.

    Raises:
        ModelError: Names both what the card says and what the model has.
    """
    wanted = [1, 3, card.height, card.width]
    if list(shapes) != [card.input_name]:
        raise ModelError(
            f"model {card.name!r}: the card's input is {card.input_name!r}, the "
            f"model's {', '.join(map(repr, shapes)) or 'missing'}"
        )
    found = shapes[card.input_name]
    fits = len(found) == len(wanted) and all(
        size in (None, want) for size, want in zip(found, wanted, strict=True)
    )
    if not fits:
        shape = "x".join("?" if size is None else str(size) for size in found)
        raise ModelError(
            f"model {card.name!r}: the card asks for input "
            f"{'x'.join(map(str, wanted))}, the model has {shape}"
        )


def require_outputs(card: ModelCard, names: list[str]) -> None:
    """Check that the model has all of the card's outputs, by name.

    Raises:
        ModelError: Names the missing ones and those that there are.
    """
    missing = [name for name in card.outputs if name not in names]
    if missing:
        raise ModelError(
            f"model {card.name!r}: no output {', '.join(map(repr, missing))} "
            f"(the model has {', '.join(map(repr, names))})"
        )
