"""How long a step will take, estimated from how long it took."""

from bisect import bisect_left, insort
from collections import deque

LEAST_SAMPLES = 5
"""No estimate before so many times: the first are no guide. A network's first runs
are up to eight times slower, and a video sink opens its encoder on the first frame."""


class ServiceTimes:
    """A low quantile of the last ``window`` service times of one step.

    The optimistic quantile is deliberate: the estimate is used to give frames up, and
    a frame must only be given up when it could not even finish on a good day.
    """

    def __init__(self, window: int = 64, quantile_percent: int = 25) -> None:
        if window < LEAST_SAMPLES:
            raise ValueError(f"window must be at least {LEAST_SAMPLES}, got {window}")
        if not 0 <= quantile_percent <= 100:
            raise ValueError(f"quantile_percent must be 0..100, got {quantile_percent}")
        self._window = window
        self._quantile_percent = quantile_percent
        self._recent: deque[int] = deque()
        self._sorted: list[int] = []
        self._estimate_ns = 0

    def observe(self, service_ns: int) -> int:
        """Add one measured service time; return by how much the estimate changed."""
        if len(self._recent) == self._window:
            oldest = self._recent.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._recent.append(service_ns)
        insort(self._sorted, service_ns)
        n = len(self._sorted)
        before_ns = self._estimate_ns
        if n >= LEAST_SAMPLES:
            self._estimate_ns = self._sorted[(n - 1) * self._quantile_percent // 100]
        return self._estimate_ns - before_ns

    def estimate_ns(self) -> int:
        """The quantile; 0 while too little has been observed to say."""
        return self._estimate_ns
