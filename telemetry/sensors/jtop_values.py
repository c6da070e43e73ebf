"""What jetson-stats tells, in base units, whatever release it is of.

Its shapes: until 3.x power is flat or a pair of total and rails; from 4.2 on it is
``{"rail": ..., "tot": ...}``, and the total has a name if it is a rail and none if it
is a plain sum, which counts some rails twice and is not used. ``avg`` is a filter over
updates and no mean over time; it is never used either.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from edgepipe.telemetry.sensors.reading import Kind

_OFFLINE = -256
_MOST_MHZ = 10_000
"""Clocks are told in kHz, and in MHz where they come from NVML. No kHz is so low."""
_TOTALS = frozenset({"tot", "total", "all"})
_CONSTANT = frozenset({"PMIC", "PMIC-Die"})


class Told(NamedTuple):
    """A value, or why there is none."""

    value: float | None
    reason: str = ""


Key = tuple[Kind, str]
Values = dict[Key, Told]
Pairs = Iterator[tuple[Key, Told]]


def values_of(client: Any) -> tuple[Values, dict[str, str]]:
    """Everything a connected client tells, and why some parts could not be had."""
    values: Values = {}
    failures: dict[str, str] = {}
    for part in _PARTS:
        failure = _read(client, part, values)
        if failure:
            failures[part] = failure
    return values, failures


def _read(client: Any, part: str, values: Values) -> str:
    try:
        values.update(_PARTS[part](getattr(client, part)))
    except Exception as error:  # noqa: BLE001 - a foreign library's edge
        return one_line(error)
    return ""


def one_line(error: BaseException) -> str:
    """What an error says, on one line; its kind where it says nothing or one word."""
    words = " ".join(str(error).split())
    named = type(error).__name__
    return words[:300] if " " in words else f"{named} {words}".strip()


def _power(power: Any) -> Pairs:
    for name, rail in _rails(power):
        if name != "NC" and not name.startswith("ucsi"):
            yield (Kind.POWER, name), _scaled(rail, ("power", "cur"), 1000)


def _rails(power: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(power, (tuple, list)):
        _, power = cast(tuple[Any, Any], power)
    rails: Mapping[str, Any] = power.get("rail", power)
    for name, rail in rails.items():
        if name not in _TOTALS:
            yield name, rail
    total = power.get("tot")
    if isinstance(total, Mapping) and "name" in total:
        known = cast(Mapping[str, Any], total)
        yield str(known["name"]), known


def _temperature(zones: Mapping[str, Any]) -> Pairs:
    for name, zone in zones.items():
        if name not in _CONSTANT:
            yield (Kind.TEMPERATURE, name), _scaled(zone, ("temp",), 1)


def _gpu(gpus: Mapping[str, Any]) -> Pairs:
    if "val" in gpus or "frq" in gpus:
        gpus = {"gpu": {"status": {"load": gpus.get("val")}, "freq": gpus.get("frq")}}
    for number, gpu in enumerate(gpus.values()):
        name = f"gpu-{number}" if number else "gpu"
        yield (Kind.LOAD, name), _scaled(gpu["status"], ("load",), 100)
        yield (Kind.CLOCK, name), _clock(gpu["freq"])


def _cpu(cpu: Mapping[str, Any]) -> Pairs:
    for number, core in enumerate(cpu.get("cpu", ())):
        name = f"cpu{number}"
        if not core.get("online", True):
            yield (Kind.CLOCK, name), Told(None, "offline")
            continue
        yield (Kind.CLOCK, name), _clock(core.get("freq", {}))
        if "info_freq" in core:
            # The service reads it as root: the clock that the hardware measures.
            yield (Kind.CLOCK_MEASURED, name), _clock(core["info_freq"])


def _memory(memory: Mapping[str, Any]) -> Pairs:
    if "EMC" in memory:
        yield (Kind.CLOCK, "emc"), _clock(memory["EMC"])
        yield (Kind.LOAD, "emc"), _scaled(memory["EMC"], ("val",), 100)


_PARTS: Mapping[str, Callable[[Any], Pairs]] = {
    "power": _power,
    "temperature": _temperature,
    "gpu": _gpu,
    "cpu": _cpu,
    "memory": _memory,
}


def _clock(told: Any) -> Told:
    khz = _scaled(told, ("cur",), 1)
    if not khz.value:
        return Told(None, khz.reason or "switched off")
    return Told(khz.value * (1e6 if khz.value < _MOST_MHZ else 1e3))


def _scaled(told: Any, names: tuple[str, ...], per: int) -> Told:
    """A number that stands alone or under one of these names, ``per`` of it in one."""
    value = told
    if isinstance(told, Mapping):
        known = cast(Mapping[str, Any], told)
        if known.get("online") is False:
            return Told(None, "offline")
        value = next((known[name] for name in names if name in known), None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Told(None, "not told")
    if value == _OFFLINE:
        return Told(None, "offline")
    return Told(value / per) if math.isfinite(value) else Told(None, "not a number")
