"""How large a tensor's values are: a histogram that grows with what it is shown."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

BINS = 2048
"""As TensorRT's calibrators have; even, so that bins can be joined in pairs."""
LEAST_LIMIT = 2.0**-60
"""Smaller values are as good as zero; with them sums in FP32 would leave its range."""


@dataclass(slots=True)
class Histogram:
    """Counts of absolute values in ``BINS`` equal bins from 0 to ``limit``.

    A larger value doubles the limit, as often as it takes, and joins the bins in
    pairs: the order in which images come does not matter for the limit, and nothing is
    looked at twice. The largest value itself is kept exactly.
    """

    limit: float = 0.0
    """Upper edge of the last bin; 0 as long as nothing but zeros was seen."""
    largest: float = 0.0
    lowest: float = 0.0
    """The smallest value, or 0 if none was below."""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, values: NDArray[np.float32]) -> None:
        """Count the values of one tensor of one image.

        Raises:
            ValueError: One of them is NaN or infinite.
        """
        magnitudes = np.abs(values).ravel()
        largest = float(magnitudes.max(initial=0.0))
        if not np.isfinite(largest):
            raise ValueError("values that are NaN or infinite")
        self.largest = max(self.largest, largest)
        self.lowest = min(self.lowest, float(values.min(initial=0.0)))
        self._grow(largest)
        if not self.limit:
            self.counts[0] += magnitudes.size
            return
        bins = (magnitudes * np.float32(BINS / self.limit)).astype(np.int32)
        np.minimum(bins, BINS - 1, out=bins)
        self.counts += np.bincount(bins, minlength=BINS)

    def _grow(self, largest: float) -> None:
        """Make room for a value; a power of two is the limit, whatever came first."""
        if largest and not self.limit:
            self.limit = max(LEAST_LIMIT, float(2.0 ** np.ceil(np.log2(largest))))
        while largest > self.limit:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([pairs, np.zeros(BINS // 2, np.int64)])
            self.limit *= 2

    @property
    def centres(self) -> NDArray[np.float64]:
        """(BINS,) the middle of each bin."""
        return (np.arange(BINS, dtype=np.float64) + 0.5) * (self.limit / BINS)
