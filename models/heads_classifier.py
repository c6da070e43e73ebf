"""The head of a classifier: one score for each class of an image."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError, require_finite
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs

MOST_OFF = 0.2
"""How far from 1 the sum of what a network calls probabilities may be: those of an INT8
network are rounded to 256 steps each."""


class ClassifierHead:
    """One output (classes,).

    Args:
        card: The model's description.
        softmax: Whether the output is raw, and probabilities are still to be made of
            it; else it holds them.
    """

    def __init__(self, card: ModelCard, *, softmax: bool) -> None:
        (self._output,) = card.outputs
        self._softmax = softmax
        self.shapes = ((len(card.class_names),),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All values."""
        return shape[0]

    def probabilities(self, outputs: Outputs) -> NDArray[np.float32]:
        """(n, classes) of the images of a batch, in 0..1, each row summing to 1.

        Raises:
            BadOutputError: A value is NaN or infinite, or what should be
                probabilities is not.
        """
        output = outputs[self._output]
        require_finite(output, self._output)
        if not self._softmax:
            require_probabilities(output, self._output)
            return output
        # Less the largest: the exponential of what is left cannot overflow.
        powers = np.exp(output - output.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def require_probabilities(output: NDArray[np.float32], name: str) -> None:
    """Raise if a row is not made of shares of a whole: the card names the wrong head.

    Raises:
        BadOutputError: A value is below 0, or a row does not sum to 1.
    """
    sums = output.sum(axis=1)
    if output.min() < 0 or np.abs(sums - 1).max() > MOST_OFF:
        raise BadOutputError(
            f"output {name!r} holds no probabilities (least {output.min():.3g}, sum "
            f"{sums[np.abs(sums - 1).argmax()]:.3g}): raw scores want head 'classifier'"
        )
