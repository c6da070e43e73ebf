"""Which readings mean what: the decision table, one function for each row.

A rule looks at what is known at one moment and yields findings; it remembers nothing.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_facts import Facts, Rise, family

HIGH_LOAD = 0.9
"""From here on a part has all the work it can do."""
LOW_CLOCK = 0.95
"""A clock below this share of what is allowed is low."""
NEAR_TRIP_C = 3.0
"""A zone this near to its passive trip point is hot: cooling has a hysteresis."""
DIVIDED = 0.7
"""A measured clock below this share of the set one was divided by the hardware."""
SAME = 0.99
"""Clocks that differ by less are the same: tables and requests are rounded."""

OVER_CURRENT_EVENT_S = 0.00107
"""Time at half the clock that one event costs: an estimate from a public study of one
Orin Nano Super."""

_COOLING = re.compile(
    r"(.*-throttle-alert|hot-surface-alert|(thermal-)?(cpufreq|devfreq)-.*"
    r"|(cpu|gpu|emergency)-balanced|Processor|intel_powerclamp)(-\d+)?"
)
"""Cooling devices that take speed away. Fans do not, and other names are not known."""

COUNTERS = {
    "oc1": (Cause.UNDER_VOLTAGE, "board"),
    "oc2": (Cause.POWER_CAP, "board"),
    "oc3": (Cause.OVER_CURRENT, "board"),
    "cpu-throttle": (Cause.THERMAL, "cpu"),
}

_IDLE, _HW_SLOWDOWN, _POWER_BRAKE = 0x1, 0x8, 0x80
_REASONS = (
    (0x2, Cause.SETTING, "application clocks"),
    (0x4, Cause.POWER_CAP, "power cap of the driver"),
    (0x10, Cause.SETTING, "sync boost"),
    (0x20, Cause.THERMAL, "slowdown by the driver, hot"),
    (0x40, Cause.THERMAL, "slowdown by the hardware, hot"),
    (_POWER_BRAKE, Cause.POWER_CAP, "power brake"),
    (0x100, Cause.SETTING, "display clocks"),
)
"""NVML's clock event reasons (nvml.h)."""


class Finding(NamedTuple):
    """One thing that holds at present."""

    cause: Cause
    part: str
    """``gpu``, ``gpu0``, ``cpu``, ``cpu4`` or ``board``."""
    text: str
    """The readings it rests on."""
    until_ns: int
    """For how long they speak, when no others follow."""
    sure: bool = True
    """False: must hold for a while, since a governor needs time to follow the load."""
    grows: bool = False
    """The text tells more as it goes on; else what was seen first is what counts."""


Rule = Callable[[Facts, int], Iterator[Finding]]


def cools(name: str) -> bool:
    """Whether a cooling device of this name takes speed away."""
    return _COOLING.fullmatch(name) is not None


def cause_of(rise: Rise) -> tuple[Cause, str] | None:
    """What a counter counts, and where; None: nothing that throttles."""
    if rise.kind is Kind.EVENTS:
        return COUNTERS.get(rise.name)
    part, _, what = rise.name.rpartition("-")
    causes = {"thermal": Cause.THERMAL, "power": Cause.POWER_CAP}
    return (causes[what], part) if what in causes else None


def tells(facts: Facts, reading: Reading, now_ns: int) -> bool:
    """Whether a reading that has been taken in could have shown throttling."""
    if reading.value is None:
        return False
    kind, name = reading.channel.kind, reading.channel.name
    if kind is Kind.COOLING:
        return cools(name)
    if kind in (Kind.EVENTS, Kind.THROTTLED):
        return cause_of(Rise(kind, name, 0)) is not None
    if kind is Kind.CLOCK and family(name) == "gpu":
        allowed = facts.allowed(name, now_ns)
        return allowed is not None and facts.load(name, now_ns) is not None
    return kind is Kind.REASONS


def cooling(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """A cooling device is turned up: thermal."""
    found: dict[str, list[tuple[str, Reading, float]]] = {}
    for device in facts.all(Kind.COOLING, now_ns):
        if cools(device[0]) and device[2] > 0:
            found.setdefault(_part(device[0]), []).append(device)
    hottest = _hottest(facts, now_ns) if found else []
    for part, devices in found.items():
        text = ", ".join(
            [*(f"{name}={state:g}" for name, _, state in devices), *hottest]
        )
        until_ns = max(reading.at_ns for _, reading, _ in devices) + facts.hold_ns
        yield Finding(Cause.THERMAL, part, text, until_ns)


def _part(device: str) -> str:
    """Which part a cooling device slows."""
    policy = re.search(r"cpufreq-(cpu\d+)", device)
    if policy:
        return policy[1]
    if device.startswith(("cpu", "thermal-cpufreq", "Processor", "intel")):
        return "cpu"
    return "gpu" if re.search(r"gpu|1[57]000000|57000000", device) else "board"


def _hottest(facts: Facts, now_ns: int) -> list[str]:
    """The zone that is nearest to its trip point, in words, if there is one."""
    zones = [
        (reading.channel.limits["passive"] - value, name, value)
        for name, reading, value in facts.all(Kind.TEMPERATURE, now_ns)
        if "passive" in reading.channel.limits
    ]
    if not zones:
        all_zones = facts.all(Kind.TEMPERATURE, now_ns)
        hot = max(((value, name) for name, _, value in all_zones), default=None)
        return [f"{hot[1]} {hot[0]:.1f} C"] if hot else []
    margin, name, value = min(zones)
    return [f"{name} {value:.1f} C of {value + margin:.1f}"]


def _near_trip(facts: Facts, now_ns: int) -> bool:
    return any(
        value >= reading.channel.limits.get("passive", float("inf")) - NEAR_TRIP_C
        for _, reading, value in facts.all(Kind.TEMPERATURE, now_ns)
    )


def counters(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """A counter has risen since it was read before."""
    for kind in (Kind.EVENTS, Kind.THROTTLED):
        for name, reading, _ in facts.all(kind, now_ns):
            rose = facts.rising(kind, name)
            what = cause_of(Rise(kind, name, 0))
            if rose and what:
                unit = " s" if kind is Kind.THROTTLED else ""
                text = f"{name} {rose[0]:g} to {rose[1]:g}{unit}"
                until_ns = reading.at_ns + facts.hold_ns
                yield Finding(*what, text, until_ns, grows=True)


def reasons(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """The driver of a GPU says what holds its clock down."""
    for name, reading, value in facts.all(Kind.REASONS, now_ns):
        bits, until_ns = int(value), reading.at_ns + facts.hold_ns
        words: dict[Cause, list[str]] = {}
        for bit, cause, word in _REASONS:
            if bits & bit:
                words.setdefault(cause, []).append(word)
        # The bit stands for heat and for the power brake, which has a bit of its own.
        if bits & _HW_SLOWDOWN and not bits & _POWER_BRAKE:
            words.setdefault(Cause.THERMAL, []).append("slowdown by the hardware")
        if bits == _IDLE:
            words[Cause.DVFS_IDLE] = ["idle"]
        for cause, said in words.items():
            text = f"{name}: {', '.join(said)} (0x{bits:x})"
            sure = cause is not Cause.DVFS_IDLE
            yield Finding(cause, name, text, until_ns, sure)


def divider(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """The hardware runs a part far below the lowest clock that software may set.

    The clock that is set is no measure: it may change between two reads.
    """
    alerts = facts.all(Kind.COOLING, now_ns)
    hot = any(state > 0 and "-throttle-alert" in name for name, _, state in alerts)
    cause = Cause.THERMAL if hot else Cause.OVER_CURRENT
    for name, reading, measured in facts.all(Kind.CLOCK_MEASURED, now_ns):
        floor = facts.value(Kind.CLOCK_FLOOR, name, now_ns)
        if floor and 0 < measured < DIVIDED * floor:
            text = f"{name} runs at {_mhz(measured)} MHz, allowed from {_mhz(floor)} on"
            yield Finding(cause, name, text, reading.at_ns + facts.hold_ns)


def pinned(facts: Facts, name: str) -> bool:
    """Whether a part's clock was pinned when the run began."""
    floor = facts.first(Kind.CLOCK_FLOOR, name)
    ceiling = facts.first(Kind.CLOCK_CEILING, name)
    return bool(floor and ceiling and floor >= SAME * ceiling)


def floor_lost(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """The lowest allowed clock fell although the run began pinned."""
    for name, reading, floor in facts.all(Kind.CLOCK_FLOOR, now_ns):
        first = facts.first(Kind.CLOCK_FLOOR, name)
        if first and pinned(facts, name) and floor < SAME * first:
            text = f"{name} may fall to {_mhz(floor)} MHz, was pinned at {_mhz(first)}"
            until_ns = reading.at_ns + facts.hold_ns
            yield Finding(Cause.CLOCK_FLOOR_LOST, name, text, until_ns)


def mode_cap(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """Less is allowed than the hardware can do, and no cooling device asked for it."""
    slowed = {finding.part for finding in cooling(facts, now_ns)}
    for name, reading, ceiling in facts.all(Kind.CLOCK_CEILING, now_ns):
        most = reading.channel.limits.get("max")
        cooled = name in slowed or family(name) in slowed
        if most and family(name) and ceiling < SAME * most and not cooled:
            text = f"{name} may reach {_mhz(ceiling)} of {_mhz(most)} MHz"
            until_ns = reading.at_ns + facts.hold_ns
            yield Finding(Cause.POWER_MODE_CAP, name, text, until_ns)


def low_clock(facts: Facts, now_ns: int) -> Iterator[Finding]:
    """Why a GPU's clock is low when no other rule says so."""
    for name in facts.names(Kind.CLOCK):
        reading = facts.reading(Kind.CLOCK, name, now_ns)
        if reading is None or family(name) != "gpu":
            continue
        until_ns = reading.at_ns + facts.hold_ns
        if reading.value == 0 or (reading.value is None and "gated" in reading.reason):
            text = f"{name}: {reading.reason or 'clock 0'}"
            yield Finding(Cause.GATED, name, text, until_ns, sure=False)
        elif reading.value is not None:
            yield from _low(facts, now_ns, name, reading.value, until_ns)


def _low(
    facts: Facts, now_ns: int, name: str, clock: float, until_ns: int
) -> Iterator[Finding]:
    allowed = facts.allowed(name, now_ns)
    if allowed is None or clock >= LOW_CLOCK * allowed:
        return
    load = facts.load(name, now_ns)
    text = f"{name} at {_mhz(clock)} of {_mhz(allowed)} MHz"
    if load is None:
        told, cause = "load not told", _without_load(facts, now_ns)
    elif load >= HIGH_LOAD and facts.value(Kind.REASONS, name, now_ns) is not None:
        return  # The driver knows, and has said.
    elif load < HIGH_LOAD:
        told, cause = f"load {100 * load:.0f} %", Cause.DVFS_IDLE
    else:
        hot = _near_trip(facts, now_ns)
        told, cause = (
            f"load {100 * load:.0f} %",
            Cause.THERMAL if hot else Cause.UNKNOWN,
        )
        text = ", ".join([text, *(_hottest(facts, now_ns) if hot else [])])
    yield Finding(cause, name, f"{text}, {told}", until_ns, sure=False)


def _without_load(facts: Facts, now_ns: int) -> Cause:
    """A low clock that no cooling device asked for is idle; without any, who knows."""
    watched = any(cools(name) for name, _, _ in facts.all(Kind.COOLING, now_ns))
    return Cause.DVFS_IDLE if watched else Cause.NOT_OBSERVABLE


def _mhz(hz: float) -> str:
    return f"{hz / 1e6:.0f}"


RULES: tuple[Rule, ...] = (
    cooling,
    counters,
    reasons,
    divider,
    floor_lost,
    mode_cap,
    low_clock,
)


def findings(facts: Facts, now_ns: int) -> dict[tuple[Cause, str], Finding]:
    """All that holds now, by cause and part.

    A part that is known to be throttled needs no other explanation of its low clock.
    """
    found: dict[tuple[Cause, str], Finding] = {}
    for rule in RULES:
        for finding in rule(facts, now_ns):
            found.setdefault((finding.cause, finding.part), finding)
    slowed = {finding.part for finding in found.values() if _slows(finding)}
    return {
        key: finding
        for key, finding in found.items()
        if finding.sure or not slowed & {finding.part, family(finding.part), "board"}
    }


def _slows(finding: Finding) -> bool:
    """Whether it explains a low clock; events on the board are too short for that."""
    if not finding.sure or not finding.cause.throttles:
        return False
    return finding.part != "board" or finding.cause is Cause.THERMAL
