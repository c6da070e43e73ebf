"""At which rate power must be read so that frames do not fool the integral.

A load that comes with frames is periodic. What readings at even times see of it
depends on the ratio of the two rates: at 10 readings a second and 30 frames, every
reading falls on the same moment of a frame, and the mean of any number of them is the
power of that moment. In general readings see a number of different moments (phases),
evenly spread, and the mean of a load that switches by ``A`` watts is wrong by up to
``A / phases``.
"""

import math
from collections.abc import Iterator, Sequence

DEFAULT_HZ = 47.0
"""Locks to no usual frame rate: 47 is prime, and far from 15, 24, 25, 30, 50 and 60."""

_NEAR = 0.15
_STEP = 0.002
_DEEPEST = 16
_SPREAD = 0.06

WINDOW_S = 10.0
"""The window that rates are judged for, unless another is given."""
ERROR_PCT = 2.0
"""What sampling may cost, unless another is given."""

_READINGS_OFF = 5.0
"""By how many readings of mean power an even comb is off, 19 times in 20."""
_PHASES_OFF = 0.3
"""A lock is warned of where this share of mean power, divided by the number of phases,
is more than the error that is allowed."""
_PHASES_MOST = 0.85
"""As a share of mean power: how far a lock on one phase puts the mean off. These three
are by the table in docs/energy.md, whose load switches by 1.3 times its mean."""


def phases(rate_hz: float, frame_hz: float, readings: int) -> int:
    """How many different moments of a frame that many readings see.

    The smallest ``p`` for which readings ``p`` apart fall on the same moment, as nearly
    as they can drift apart while it is read (Dirichlet: there is one up to
    ``readings``).
    """
    ratio = frame_hz / rate_hz
    most = max(1, readings)
    for p, off in _convergents(ratio):
        if off * most < 1 - 1e-6 or p >= most:
            return min(p, most)
    return most


def _convergents(ratio: float) -> Iterator[tuple[int, float]]:
    """Denominators of the continued fraction, and how far each is from a whole."""
    rest, before, now = ratio - math.floor(ratio), 0, 1
    while now < 1 << 40:
        off = now * ratio
        yield now, abs(off - round(off))
        if rest < 1e-9:
            break
        rest = 1 / rest
        whole = math.floor(rest)
        rest -= whole
        before, now = now, whole * now + before


def evenness(rate_hz: float, frame_hz: float) -> float:
    """How evenly readings spread over a frame: 0 is locked, 0.38 is the best there is.

    The smallest ``p * ||p * frame_hz / rate_hz||`` for p up to 16, where ``||x||`` is
    the distance to the nearest whole number.
    """
    ratio = frame_hz / rate_hz
    return min(p * abs(p * ratio - round(p * ratio)) for p in range(1, _DEEPEST + 1))


def sampling_rate(
    wanted_hz: float = DEFAULT_HZ, frame_rates: Sequence[float] = ()
) -> float:
    """The rate nearest to the one wanted that locks to none of the frame rates.

    Within 15 %; if none there is free of all of them, the one that spreads best.

    Raises:
        ValueError: A rate is not above 0.
    """
    if min((wanted_hz, *frame_rates)) <= 0:
        raise ValueError(f"rates must be above 0, got {wanted_hz}, {frame_rates}")
    best_hz, best = wanted_hz, -1.0
    for rate_hz in _around(wanted_hz):
        spread = min((evenness(rate_hz, f) for f in frame_rates), default=1.0)
        if spread >= _SPREAD:
            return rate_hz
        if spread > best:
            best_hz, best = rate_hz, spread
    return best_hz


def _around(wanted_hz: float) -> Iterator[float]:
    yield wanted_hz
    for step in range(1, round(_NEAR / _STEP) + 1):
        for sign in (-1, 1):
            yield float(f"{wanted_hz * (1 + sign * step * _STEP):.4g}")


def ripple(frame_hz: float, tau_s: float | None) -> float:
    """Share of a frame's ripple that the sensor's own filter lets through."""
    return 1 / math.hypot(1, 2 * math.pi * frame_hz * (tau_s or 0.0))


def needed_rate(
    frame_rates: Sequence[float],
    tau_s: float | None,
    window_s: float = WINDOW_S,
    error_pct: float = ERROR_PCT,
) -> float:
    """Readings a second that a window needs, Hz; 0 without frame rates.

    Args:
        frame_rates: Rates that the load comes with.
        tau_s: The sensor's filter; one that is not known is taken for none.
        window_s: Length of the window.
        error_pct: How far sampling may put the mean off, 19 times in 20.
    """
    share = max((ripple(f, tau_s) for f in frame_rates), default=0.0)
    return 100 * _READINGS_OFF * share / (error_pct * window_s)


def needed_rate_warning(
    rate_hz: float,
    tau_s: float | None,
    frame_rates: Sequence[float],
    window_s: float = WINDOW_S,
    error_pct: float = ERROR_PCT,
) -> str:
    """What is wrong with a rate, and which to take instead; empty if it will do.

    Args:
        rate_hz: Readings a second, as really achieved.
        tau_s: The sensor's filter; one that is not known is taken for none.
        frame_rates: Rates that the load comes with.
        window_s: Length of the shortest window that matters.
        error_pct: How far sampling may put the mean off, 19 times in 20.
    """
    needed_hz = needed_rate(frame_rates, tau_s, window_s, error_pct)
    wanted_hz = max(rate_hz, needed_hz, DEFAULT_HZ)
    remedy = f"read it at {sampling_rate(wanted_hz, frame_rates):g} Hz"
    for frame_hz in frame_rates:
        seen = phases(rate_hz, frame_hz, int(rate_hz * window_s) // 2)
        spacing_pct = 100 * ripple(frame_hz, tau_s) / seen
        if _PHASES_OFF * spacing_pct > error_pct and seen < rate_hz * window_s / 4:
            return (
                f"power is read {rate_hz:.4g} times a second while frames come "
                f"{frame_hz:g} times: readings see {seen} moment(s) of a frame, and "
                f"energy may be off by {_PHASES_MOST * spacing_pct:.2g} % however long "
                f"the run; {remedy}"
            )
    if rate_hz < needed_hz * 0.98:
        return (
            f"power is read {rate_hz:.4g} times a second: energy of {window_s:g} s is "
            f"known to some {error_pct * needed_hz / rate_hz:.2g} %, and "
            f"{error_pct:g} % need {needed_hz:.3g} Hz; {remedy}"
        )
    return ""
