"""How wrong integrated power is, against a load whose energy is known exactly.

The load comes with 30 frames a second: 14 W for 12 ms of each on top of 6 W, all of it
drifting by 8 % (a sine of 47 s). Before the window there is no work, only the 6 W. A
sensor with a first-order filter shows it, and readings come at even times with 0.5 ms
of jitter, from a random moment on. The meter that ships adds them up.

Errors are those of the energy of windows that begin with the work, in percent, over
trials with other phases: the 95th percentile of their size (*p95*), and their mean
(*bias*). Beside them:

- *theory*: the load's harmonics at ``k * 30 Hz``, as the filter leaves them, summed
  over the readings: each is damped by ``sin(pi N x) / (N sin(pi x))`` with ``x = k * 30
  Hz / rate``. Where ``x`` is whole, nothing is damped, however many readings there are:
  the rate is locked. Jitter adds what it makes random. Power at the edge lies on a line
  that cuts the corner where work begins, by up to a quarter of a reading's share of the
  step. The filter's bias is ``-tau * (P at the end - P at the beginning)``.
- *within*: in how many of 100 trials the meter's own estimate of its error, which knows
  the frame rate and not the truth, was no smaller than the error.

    python benchmarks/energy_error.py [--trials 40] [--json]
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry.energy import Energy
from edgepipe.telemetry.energy_meter import EnergyMeter
from edgepipe.telemetry.sampling_rate import needed_rate_warning
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope

signal: Any = import_module("scipy.signal")  # SciPy ships no types

FRAME_HZ = 30
BASE_W, SWING_W, BUSY_S = 6.0, 14.0, 0.012
DRIFT, DRIFT_S = 0.08, 47.0
JITTER_S = 0.0005

RATES_HZ = (10.0, 18.7, 47.0, 100.0, 350.0)
TAUS_S = (0.0, 0.05, 0.5, 3.4)
WINDOWS_S = (1, 10, 60)

GRID_HZ = 12_000
"""Whole steps for a frame (400) and for its busy part (144)."""
LEAD_S, TAIL_S = 2, 1
HARMONICS = 3000

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """Power on a grid from ``-LEAD_S`` on; work begins at 0."""

    true_w: Samples

    def joules(self, until_s: float) -> float:
        """Energy from the beginning of the work."""
        first = LEAD_S * GRID_HZ
        return float(self.true_w[first : first + round(until_s * GRID_HZ)].sum()) / (
            GRID_HZ
        )

    def seen_by(self, tau_s: float) -> Samples:
        """What a sensor with this time constant shows; it has settled before."""
        if not tau_s:
            return self.true_w
        keep = math.exp(-1 / (GRID_HZ * tau_s))
        start = np.array([keep * self.true_w[0]])
        seen, _ = signal.lfilter([1 - keep], [1, -keep], self.true_w, zi=start)
        return np.asarray(seen, dtype=np.float64)


@dataclass(frozen=True)
class Trial:
    """One window, one sensor, one rate."""

    tau_s: float
    rate_hz: float
    window_s: int
    error_pct: float
    uncorrected_pct: float
    estimate_pct: float


@dataclass(frozen=True)
class Row:
    """What many trials say."""

    tau_s: float
    rate_hz: float
    window_s: int
    p95_pct: float
    theory_pct: float
    bias_pct: float
    uncorrected_bias_pct: float
    uncorrected_theory_pct: float
    estimate_pct: float
    """Median of the meter's own estimates."""
    within: float
    warned: bool


def load(rng: np.random.Generator, length_s: int) -> Load:
    """A load with frames and drift at random phases."""
    at_s = np.arange(-LEAD_S * GRID_HZ, (length_s + TAIL_S) * GRID_HZ) / GRID_HZ
    step = GRID_HZ // FRAME_HZ
    phase = (np.arange(len(at_s)) + rng.integers(step)) % step
    busy = (phase < round(BUSY_S * GRID_HZ)) & (at_s >= 0)
    drift = 1 + DRIFT * np.sin(2 * np.pi * (at_s / DRIFT_S + rng.random()))
    return Load((BASE_W + SWING_W * busy) * drift)


def measure(
    seen_w: Samples,
    tau_s: float,
    rate_hz: float,
    windows_s: Sequence[int],
    rng: np.random.Generator,
) -> list[Energy]:
    """What the meter makes of readings of this curve, for windows from 0 on."""
    channel = Channel(Kind.POWER, "input", "synthetic", Scope.MODULE_INPUT, tau_s=tau_s)
    meter = EnergyMeter(channel, round(1e9 / rate_hz))
    for edge_s in (0, *windows_s):
        meter.mark(edge_s * 1_000_000_000)
    span_s = len(seen_w) / GRID_HZ
    comb = np.arange(1 / rate_hz, span_s - 1 / rate_hz, 1 / rate_hz)
    comb += rng.random() / rate_hz + rng.normal(0, JITTER_S, len(comb))
    steps = np.clip(np.rint(comb * GRID_HZ), 0, len(seen_w) - 1).astype(np.int64)
    for step in np.unique(steps):
        at_ns = int(step) * 1_000_000_000 // GRID_HZ - LEAD_S * 1_000_000_000
        meter.add(Reading(channel, float(seen_w[step]), at_ns))
    return [meter.between(0, w * 1_000_000_000, [FRAME_HZ]) for w in windows_s]


def trials(
    seed: int,
    n: int,
    taus_s: Sequence[float] = TAUS_S,
    rates_hz: Sequence[float] = RATES_HZ,
    windows_s: Sequence[int] = WINDOWS_S,
) -> Iterator[Trial]:
    """Everything that was measured, trial by trial."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        truth = load(rng, max(windows_s))
        for tau_s in taus_s:
            seen_w = truth.seen_by(tau_s)
            for rate_hz in rates_hz:
                found = measure(seen_w, tau_s, rate_hz, windows_s, rng)
                for window_s, energy in zip(windows_s, found, strict=True):
                    true_j = truth.joules(window_s)
                    yield _trial(energy, tau_s, rate_hz, window_s, true_j)


def _trial(
    energy: Energy, tau_s: float, rate_hz: float, window_s: int, true_j: float
) -> Trial:
    if energy.window_j is None or energy.error_pct is None:
        raise RuntimeError(f"no figure: {energy.reason}")
    uncorrected_j = energy.window_j - energy.correction_j
    return Trial(
        tau_s,
        rate_hz,
        window_s,
        100 * (energy.window_j / true_j - 1),
        100 * (uncorrected_j / true_j - 1),
        energy.error_pct,
    )


def mean_w() -> float:
    """Of the load, without drift."""
    return BASE_W + SWING_W * BUSY_S * FRAME_HZ


def filter_bias_pct(tau_s: float, window_s: float) -> float:
    """What the filter takes from a window that begins with the work."""
    if not tau_s:
        return 0.0
    rise_w = (mean_w() - BASE_W) * -math.expm1(-window_s / tau_s)
    return -100 * tau_s * rise_w / (mean_w() * window_s)


def sampling_theory_pct(
    tau_s: float, rate_hz: float, window_s: float, rng: np.random.Generator
) -> float:
    """The 95th percentile of the sampling error over phases of the frames."""
    k = np.arange(1, HARMONICS + 1)
    omega = 2 * np.pi * k * FRAME_HZ
    amplitude_w = 2 * SWING_W / (np.pi * k) * np.sin(np.pi * k * BUSY_S * FRAME_HZ)
    amplitude_w /= np.hypot(1, omega * tau_s)
    blur = np.exp(-((omega * JITTER_S) ** 2) / 2)
    n = round(rate_hz * window_s)
    x = k * FRAME_HZ / rate_hz
    off = x - np.rint(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        kernel = np.sin(np.pi * n * off) / (n * np.sin(np.pi * off))
    kernel = np.where(np.abs(off) < 1e-9, 1.0, kernel)
    turns = 2 * np.pi * rng.random(500)[:, None]
    shift = np.arctan(omega * tau_s) - np.pi * off * (n - 1)
    waves = amplitude_w * blur * kernel * np.cos(k * turns - shift)
    random_w = math.sqrt(float((amplitude_w**2 * (1 - blur**2)).sum()) / 2 / n)
    error_w = waves.sum(axis=1) + rng.normal(0, random_w, len(turns))
    edge_w = (mean_w() - BASE_W) / 4 / n
    return (
        100 * math.hypot(float(np.quantile(np.abs(error_w), 0.95)), edge_w) / mean_w()
    )


def rows(found: Sequence[Trial], seed: int) -> list[Row]:
    """One for each sensor, window and rate."""
    keys = sorted({(t.tau_s, t.rate_hz, t.window_s) for t in found})
    rng = np.random.default_rng(seed)
    return [_row(key, found, rng) for key in keys]


def _row(
    key: tuple[float, float, int], found: Sequence[Trial], rng: np.random.Generator
) -> Row:
    mine = [t for t in found if (t.tau_s, t.rate_hz, t.window_s) == key]
    errors = np.array([t.error_pct for t in mine])
    return Row(
        *key,
        p95_pct=float(np.quantile(np.abs(errors), 0.95)),
        theory_pct=sampling_theory_pct(*key, rng),
        bias_pct=float(errors.mean()),
        uncorrected_bias_pct=float(np.mean([t.uncorrected_pct for t in mine])),
        uncorrected_theory_pct=filter_bias_pct(key[0], key[2]),
        estimate_pct=float(np.median([t.estimate_pct for t in mine])),
        within=float(np.mean([abs(t.error_pct) <= t.estimate_pct for t in mine])),
        warned=bool(needed_rate_warning(key[1], key[0], [FRAME_HZ])),
    )


def tables(found: Sequence[Row]) -> str:
    """Both tables, as the documentation has them."""
    windows_s = sorted({row.window_s for row in found})
    heads = "".join(f" {w} s: p95 | theory | estimate | within |" for w in windows_s)
    lines = [f"| tau (s) | rate (Hz) |{heads}", "|---" * (2 + 4 * len(windows_s)) + "|"]
    for tau_s, rate_hz in sorted({(row.tau_s, row.rate_hz) for row in found}):
        mine = [r for r in found if (r.tau_s, r.rate_hz) == (tau_s, rate_hz)]
        mark = " (warned)" if mine[0].warned else ""
        cells = "".join(
            f" {_short(r.p95_pct)} | {_short(r.theory_pct)} | "
            f"{_short(r.estimate_pct)} | {100 * r.within:.0f} |"
            for r in mine
        )
        lines.append(f"| {tau_s:g} | {rate_hz:g}{mark} |{cells}")
    lines += ["", "| tau (s) | window (s) | bias | theory | corrected |"]
    lines.append("|---" * 5 + "|")
    for row in found:
        if row.rate_hz == 47 and row.tau_s:
            lines.append(
                f"| {row.tau_s:g} | {row.window_s} | {row.uncorrected_bias_pct:.2f} | "
                f"{row.uncorrected_theory_pct:.2f} | {row.bias_pct:.2f} |"
            )
    return "\n".join(lines)


def _short(pct: float) -> str:
    return f"{pct:.0f}" if pct >= 10 else f"{pct:.2g}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Errors of integrated power.")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = rows(list(trials(options.seed, options.trials)), options.seed)
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=1))
    else:
        print(tables(found))


if __name__ == "__main__":
    main()
