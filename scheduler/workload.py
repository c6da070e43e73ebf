"""What a simulated frame will ask for: plain integers, sampled before any decision.

Every figure is a function of the seed and of what it belongs to (stream, sequence,
step), so all policies see identical frames, whatever they drop ("common random
numbers"). The generator is an integer hash, and the lognormal factors are a table of
quantiles rounded to millionths: results do not depend on processor or C library.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from edgepipe.scheduler.job import PERMILLE, Rung
from edgepipe.scheduler.scenario import (
    FRAME_RATE_UNIT_NS,
    Camera,
    Phases,
    Scenario,
    ServiceModel,
    scaled,
)

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_BITS = 12
"""The lognormal table has 2**12 quantiles: its tails end at 3.7 deviations."""
_MILLION = 1_000_000
# What a draw is for: the purpose is part of its key.
_PHASE, _JITTER, _SLOW_PHASE, _FAILURE, _STEP = 1, 2, 3, 4, 5


class TraceFrame(NamedTuple):
    """One frame of a workload, the same for every policy. Times are nanoseconds."""

    stream: str
    sequence: int
    capture_ns: int
    """True moment of capture."""
    arrival_ns: int
    """When the pipeline learns of it."""
    deadline_ns: int
    """Capture plus the time allowed."""
    weight: int
    cost_ns: tuple[tuple[int, ...], ...]
    """Service time alone, at full clock, by rung and step."""


class DrawnFrame(NamedTuple):
    """One frame of a camera before anybody looks at it. Times are nanoseconds."""

    arrival_ns: int
    sequence: int
    capture_ns: int
    cost_ns: tuple[int, ...]
    """Service time of each step alone, at full clock, on rung 0."""


def trace(scenario: Scenario, seed: int) -> list[TraceFrame]:
    """Every frame of the scenario in order of arrival, ties in order of the streams.

    Weights are those of the streams. Refusals, credits and failures are not in it:
    they depend on the policy.
    """
    frames = [
        (drawn.arrival_ns, index, _trace_frame(camera, drawn))
        for index, camera in enumerate(scenario.cameras)
        for drawn in draw_frames(scenario, index, seed)
    ]
    frames.sort(key=lambda frame: frame[:2])
    return [frame for _, _, frame in frames]


def _trace_frame(camera: Camera, drawn: DrawnFrame) -> TraceFrame:
    spec = camera.spec
    return TraceFrame(
        spec.id,
        drawn.sequence,
        drawn.capture_ns,
        drawn.arrival_ns,
        drawn.capture_ns + spec.deadline_ns,
        spec.weight,
        tuple(rung_costs(drawn.cost_ns, rung) for rung in spec.ladder),
    )


def rung_costs(costs_ns: tuple[int, ...], rung: Rung) -> tuple[int, ...]:
    """What the steps take on a rung, from what they take on rung 0."""
    if not rung.cost_permille:
        return costs_ns
    pairs = zip(costs_ns, rung.cost_permille, strict=True)
    return tuple(scaled(cost, permille) for cost, permille in pairs)


def draw_frames(scenario: Scenario, index: int, seed: int) -> Iterator[DrawnFrame]:
    """The frames of one camera, one by one, in order of arrival and of sequence."""
    camera = scenario.cameras[index]
    key = mix(mix(seed & _MASK) + index)
    jitter_key, wide = mix(key + _JITTER), camera.jitter_ns + 1
    first_ns = camera.starts_ns + camera.phase_ns
    first_ns += _below(mix(key + _PHASE), camera.phase_spread_ns + 1)
    costs = _costs(camera, key, mix(seed & _MASK))
    end_ns = scenario.duration_ns
    if camera.ends_ns is not None:
        end_ns = min(end_ns, camera.ends_ns)
    rate, stalls = camera.frame_rate, camera.stalls
    arrival_ns = sequence = 0
    while True:
        capture_ns = first_ns + sequence * FRAME_RATE_UNIT_NS // rate
        if capture_ns >= end_ns:
            return
        due_ns = capture_ns
        if wide > 1:
            due_ns += _below(mix(jitter_key + sequence * _GOLDEN), wide)
        for stall in stalls:
            if stall.start_ns <= capture_ns < stall.end_ns:
                due_ns = stall.end_ns
        if due_ns > arrival_ns:
            arrival_ns = due_ns
        yield DrawnFrame(arrival_ns, sequence, capture_ns, costs(sequence, capture_ns))
        sequence += 1


def fails(key: int, sequence: int, step: int, chance_permille: int) -> bool:
    """Whether a step breaks on a frame; ``key`` is :func:`failure_key`'s."""
    drawn = mix(key + (sequence << 8 | step) * _GOLDEN)
    return _below(drawn, PERMILLE) < chance_permille


def failure_key(seed: int, index: int) -> int:
    """What the failures of one camera are drawn from."""
    return mix(mix(mix(seed & _MASK) + index) + _FAILURE)


def mix(value: int) -> int:
    """64 well-mixed bits from 64 bits (the finaliser of splitmix64, Steele 2014)."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def _below(drawn: int, bound: int) -> int:
    """A whole number from 0 to below ``bound``, from 64 drawn bits."""
    return drawn * bound >> 64


Costs = Callable[[int, int], tuple[int, ...]]
"""From sequence and capture time to the service times of the steps."""
Cost = Callable[[int, int], int]


def _costs(camera: Camera, key: int, seed_key: int) -> Costs:
    """The function that draws a frame's service times; only what varies is drawn."""
    fixed = [model.mean_ns for model in camera.service]
    varying = [
        (step, _cost(model, mix(key + _STEP + step), mix(seed_key + _SLOW_PHASE)))
        for step, model in enumerate(camera.service)
        if not model.is_constant
    ]
    if not varying:
        always = tuple(fixed)
        return lambda sequence, capture_ns: always

    def costs(sequence: int, capture_ns: int) -> tuple[int, ...]:
        drawn = fixed.copy()
        for step, cost in varying:
            drawn[step] = cost(sequence, capture_ns)
        return tuple(drawn)

    return costs


def _cost(model: ServiceModel, key: int, phase_key: int) -> Cost:
    """The function that draws the time of one step."""
    mean_ns, replay_ns = model.mean_ns, model.replay_ns
    factors = lognormal(model.sigma_permille) if model.sigma_permille else ()
    slow, phases, surges = model.slow, model.phases, model.surges

    def cost(sequence: int, capture_ns: int) -> int:
        drawn = mix(key + sequence * _GOLDEN)
        taken_ns = replay_ns[sequence % len(replay_ns)] if replay_ns else mean_ns
        if factors:
            taken_ns = taken_ns * factors[drawn >> 64 - _BITS] // _MILLION
        # Other bits of the same draw than those that chose the factor.
        if slow and _below(drawn << _BITS & _MASK, PERMILLE) < slow.chance_permille:
            taken_ns = scaled(taken_ns, slow.factor_permille)
        if phases and _is_slow(phases, phase_key, capture_ns):
            taken_ns = scaled(taken_ns, phases.factor_permille)
        for surge in surges:
            if surge.start_ns <= capture_ns < surge.end_ns:
                taken_ns = scaled(taken_ns, surge.factor_permille)
        return taken_ns or 1

    return cost


def _is_slow(phases: Phases, key: int, capture_ns: int) -> bool:
    drawn = mix(key + capture_ns // phases.length_ns * _GOLDEN)
    return _below(drawn, PERMILLE) < phases.chance_permille


@cache
def lognormal(sigma_permille: int) -> tuple[int, ...]:
    """Equally likely factors in millionths; their logarithm is normal, their mean 1."""
    sigma = sigma_permille / PERMILLE
    half = [math.exp(sigma * normal) for normal in _upper_normals()]
    factors = [1 / factor for factor in reversed(half)] + half
    mean = math.fsum(factors) / len(factors)
    return tuple(round(_MILLION * factor / mean) for factor in factors)


@cache
def _upper_normals() -> tuple[float, ...]:
    """The quantiles above the median of the normal distribution, by bisection."""
    count = 1 << _BITS
    return tuple(
        _normal_quantile((2 * place + 1) / (2 * count))
        for place in range(count // 2, count)
    )


def _normal_quantile(probability: float) -> float:
    low, high = 0.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        if math.erf(middle / math.sqrt(2)) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return low
