"""What the CPU engines share: input checks and the outputs of a batch."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.card import Layout, ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.shape_profile import ShapeProfile


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


def require_input(card: ModelCard, shapes: Mapping[str, list[int | None]]) -> None:
    """Check the model's inputs, by name, against the card; None is a free dimension.

    Raises:
        ModelError: Names both what the card says and what the model has.
    """
    wanted = card.input_shape()
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
            f"{'x'.join(map(str, wanted))}, the model has {shape}{_hint(card, found)}"
        )


def _hint(card: ModelCard, found: list[int | None]) -> str:
    """The card's layout, where the channels of the model lie elsewhere."""
    places = {Layout.NCHW: 3, Layout.NHWC: 1}
    if len(found) == 4 and found[places[card.layout]] == 3:
        other = Layout.NHWC if card.layout is Layout.NCHW else Layout.NCHW
        return f" (input.layout is {card.layout.value}: try {other.value})"
    return ""


def images_profile(card: ModelCard, batch_max: int) -> ShapeProfile:
    """What the requests of an engine take: up to ``batch_max`` images at once."""
    one = (1, card.height, card.width, 3)
    return ShapeProfile(card.input_name, one, one, (batch_max, *one[1:]))


def require_type(card: ModelCard, found: str) -> None:
    """Check the numbers of the model's input against the card.

    Raises:
        ModelError: They are of another type, named as NumPy does.
    """
    if found != card.input_type.value:
        raise ModelError(
            f"model {card.name!r}: the card says that the input is "
            f"{card.input_type.value} (input.type), the model's is {found}"
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
