"""From a network's scores to the best class of each row, the likely rows first."""

from math import inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import rows_reaching
from edgepipe.models.head_options import Background, HeadOptions, ScoreKind

_ROUNDING = 1e-6
"""More than a sigmoid or a softmax in float32 is off."""


class Best(NamedTuple):
    """The rows whose best class reaches the threshold."""

    rows: NDArray[np.intp]
    score: NDArray[np.float32]
    """(n,) probability of the best class."""
    class_id: NDArray[np.int32]
    """(n,) that class, without the background; the lower one when two are equal."""


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + exp(-x)); no value overflows."""
    powers = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1, powers) / (1 + powers), np.float32)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Shares of the last axis; no value overflows."""
    # Halves: the difference of two very large values is no infinity.
    half = logits / 2
    powers = np.exp(2 * np.maximum(half - half.max(-1, keepdims=True), -100))
    return np.asarray(powers / powers.sum(-1, keepdims=True), np.float32)


def least_logit(threshold: float) -> float:
    """No logit below it has a sigmoid of the threshold, whatever the rounding."""
    share = threshold - _ROUNDING
    return log(share / (1 - share)) if share > 0 else -inf


class ScoreRule:
    """How the columns of a score output become classes and probabilities.

    Args:
        options: The card's; ``scores`` and ``background`` are looked at.
        kind: What the scores are where the card does not say it.
        background: The same for the column of "no object".
    """

    def __init__(
        self,
        options: HeadOptions,
        kind: ScoreKind = "probabilities",
        background: Background = "none",
    ) -> None:
        self.kind: ScoreKind = options.scores or kind
        self.background: Background = options.background or background
        first, last = self.background == "first", self.background == "last"
        self._classes = slice(int(first), -1 if last else None)
        self._without = 0 if first else -1
        self.extra = int(first or last)
        """Columns that are no class."""

    def best(self, raw: NDArray[np.float32], threshold: float) -> Best:
        """The best class of each row of finite (n, columns) values.

        Args:
            raw: As the network puts it out.
            threshold: Lowest probability that is kept.
        """
        rows = self._likely(raw, threshold)
        shares = self.shares(raw[rows])[:, self._classes]
        score = shares.max(axis=1, initial=0)
        enough = score >= np.float32(threshold)
        class_id = shares[enough].argmax(axis=1).astype(np.int32)
        return Best(rows[enough], score[enough], class_id)

    def shares(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of each column."""
        if self.kind == "probabilities":
            return raw
        return sigmoid(raw) if self.kind == "sigmoid" else softmax(raw)

    def least(self, threshold: float) -> float:
        """The lowest value, as the network puts it out, that can reach a threshold."""
        return least_logit(threshold) if self.kind == "sigmoid" else threshold

    def _likely(self, raw: NDArray[np.float32], threshold: float) -> NDArray[np.intp]:
        """Rows that can reach the threshold, and perhaps a few more."""
        classes = raw[:, self._classes]
        if self.kind != "softmax":
            return rows_reaching(classes, self.least(threshold))
        if not self.extra:
            return np.arange(len(raw))
        # A share s leaves at most 1 - s to the background: s / (1 - s) times as much.
        with np.errstate(over="ignore"):
            ahead = classes - raw[:, [self._without]]
        return rows_reaching(ahead, least_logit(threshold))
