"""Nanoseconds inside, milliseconds in documents: the one place between them."""

from typing import Any

from edgepipe.telemetry.samples import Samples
from edgepipe.telemetry.stats import Distribution, distribution

_NS_PER_MS = 1e6


def to_ms(value_ns: float | None) -> float | None:
    """Milliseconds, or None for None."""
    return None if value_ns is None else value_ns / _NS_PER_MS


def distribution_ms(samples: Samples, nothing: str) -> dict[str, Any]:
    """Nanosecond samples summed up; ``nothing`` is the reason if there are none."""
    return distribution_to_ms(distribution(samples, nothing))


def distribution_to_ms(of: Distribution) -> dict[str, Any]:
    """A distribution of nanoseconds in the summary's shape."""
    return {
        "n": of.n,
        "total": of.total,
        "mean": to_ms(of.mean),
        "min": to_ms(of.min),
        **{name: to_ms(value) for name, value in of.percentiles.items()},
        "max": to_ms(of.max),
        "reason": of.reason,
    }
