"""What is asked of NVML: for each channel the calls that may answer, the best first.

Units and numbers are those of NVML's API reference: mJ, mW, MHz, percent, ns. The
library is whatever has pynvml's functions; one that a release lacks is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edgepipe.telemetry.sensors.reading import Kind, Scope
from edgepipe.telemetry.sensors.sensor import Pace

Call = Callable[[Any], float]
"""Takes a device's handle; gives a number in the channel's unit, counters in theirs."""

PER_JOULE = 1000
"""The energy counter counts millijoules."""

_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN = 0, 1
_POLICY_POWER, _POLICY_THERMAL = 0, 1
_FIELD_POWER_INSTANT = 186
_FIELD_OF_POLICY = {_POLICY_POWER: 74, _POLICY_THERMAL: 75}
_GA100 = (8, 0)


class NoValueError(ValueError):
    """An answer that cannot be a measurement; the text says why."""


class Way(NamedTuple):
    """One call that can answer a question."""

    call: Call
    tau_s: float | None = None
    note: str = ""
    """What people should know of the answer."""


class Question(NamedTuple):
    """One channel to be, and the ways to fill it."""

    kind: Kind
    part: str
    """What follows the GPU's name: empty, ``-memory``, ``-power``."""
    pace: Pace
    ways: Sequence[Way]
    scope: Scope | None = None
    step: float | None = None
    limits: Mapping[str, float] = {}
    zero: bool = True
    """Whether 0 can be a measurement."""


def questions(library: Any, handle: Any) -> list[Question]:
    """Everything that is worth asking of one GPU."""
    return [
        *_power(library, handle),
        *_clocks(library, handle),
        Question(Kind.LOAD, "", Pace.MEDIUM, _load(library), step=0.01),
        Question(Kind.REASONS, "", Pace.MEDIUM, _reasons(library)),
        Question(
            Kind.TEMPERATURE,
            "",
            Pace.SLOW,
            _ways(
                _scaled(library, "nvmlDeviceGetTemperature", 1.0, _SENSOR_GPU),
                _scaled(library, "nvmlDeviceGetTemperatureV", 1.0, _SENSOR_GPU),
            ),
            step=1.0,
            limits=_temperature_limits(library, handle),
        ),
        _violations(library, "-power", _POLICY_POWER),
        _violations(library, "-thermal", _POLICY_THERMAL),
    ]


def _power(library: Any, handle: Any) -> list[Question]:
    energy = _scaled(library, "nvmlDeviceGetTotalEnergyConsumption", 1)
    limit = _once(library, "nvmlDeviceGetEnforcedPowerLimit", 1e-3, handle)
    usage = _scaled(library, "nvmlDeviceGetPowerUsage", 1e-3)
    ways = [
        Way(call, tau_s, note)
        for call, tau_s, note in (
            # Averages first: of a load that was on 40 % of the time the instantaneous
            # field saw 31 % less than the counter of energy, averages 1 % more (H200).
            (usage, *_averaging(library, handle)),
            (_field(library, _FIELD_POWER_INSTANT, 1e-3), 0.0, ""),
        )
        if call is not None
    ]
    # Drivers renew both ten times a second, and asking a counter took 3 ms (H200).
    medium, board = Pace.MEDIUM, Scope.GPU_BOARD
    return [
        Question(Kind.ENERGY, "", medium, _ways(energy), board, 1e-3, zero=False),
        Question(
            Kind.POWER, "", medium, ways, board, 1e-3, _named(max=limit), zero=False
        ),
    ]


def _averaging(library: Any, handle: Any) -> tuple[float | None, str]:
    """How ``nvmlDeviceGetPowerUsage`` smooths, as its documentation has it.

    A mean of the last second is behind by half of one, as a first-order filter of
    0.5 s is.
    """
    try:
        capability = tuple(library.nvmlDeviceGetCudaComputeCapability(handle))
    except (library.NVMLError, AttributeError):
        return None, ""
    return (0.0, "") if capability <= _GA100 else (0.5, "mean of 1 s")


def _clocks(library: Any, handle: Any) -> list[Question]:
    return [
        Question(
            Kind.CLOCK,
            part,
            Pace.MEDIUM,
            _ways(_scaled(library, "nvmlDeviceGetClockInfo", 1e6, which)),
            step=1e6,
            limits=_named(
                max=_once(library, "nvmlDeviceGetMaxClockInfo", 1e6, handle, which)
            ),
            zero=False,
        )
        for part, which in (("", _CLOCK_SM), ("-memory", _CLOCK_MEMORY))
    ]


def _load(library: Any) -> list[Way]:
    return _ways(_scaled(library, "nvmlDeviceGetUtilizationRates", 0.01, member="gpu"))


def _reasons(library: Any) -> list[Way]:
    """Renamed in driver 535; older drivers and boards know the old name only."""
    return _ways(
        _scaled(library, "nvmlDeviceGetCurrentClocksEventReasons", 1),
        _scaled(library, "nvmlDeviceGetCurrentClocksThrottleReasons", 1),
    )


def _temperature_limits(library: Any, handle: Any) -> Mapping[str, float]:
    name = "nvmlDeviceGetTemperatureThreshold"
    return _named(
        passive=_once(library, name, 1.0, handle, _THRESHOLD_SLOWDOWN),
        critical=_once(library, name, 1.0, handle, _THRESHOLD_SHUTDOWN),
    )


def _violations(library: Any, part: str, policy: int) -> Question:
    name = "nvmlDeviceGetViolationStatus"
    status = _scaled(library, name, 1e-9, policy, member="violationTime")
    field = _field(library, _FIELD_OF_POLICY[policy], 1e-9)
    return Question(Kind.THROTTLED, part, Pace.SLOW, _ways(status, field), step=1e-9)


def _ways(*calls: Call | None) -> list[Way]:
    return [Way(call) for call in calls if call is not None]


def _scaled(
    library: Any, name: str, scale: float, *args: int, member: str = ""
) -> Call | None:
    function = getattr(library, name, None)
    if function is None:
        return None

    def call(handle: Any) -> float:
        answer = function(handle, *args)
        return float((getattr(answer, member) if member else answer) * scale)

    return call


def _field(library: Any, field: int, scale: float) -> Call | None:
    function = getattr(library, "nvmlDeviceGetFieldValues", None)
    if function is None:
        return None
    asked = [field]

    def call(handle: Any) -> float:
        answer = function(handle, asked)[0]
        if answer.nvmlReturn != 0:
            raise library.NVMLError(answer.nvmlReturn)
        return _number(answer) * scale

    return call


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Of NVML's union, in the order of ``nvmlValueType_t``."""


def _number(answer: Any) -> float:
    kind: int = answer.valueType
    if not 0 <= kind < len(_MEMBERS):
        raise NoValueError(f"a field of unknown type {kind}")
    return float(getattr(answer.value, _MEMBERS[kind]))


def _once(
    library: Any, name: str, scale: float, handle: Any, *args: int
) -> float | None:
    """A fact that does not change; None where it cannot be had."""
    try:
        value = getattr(library, name)(handle, *args) * scale
    except (library.NVMLError, AttributeError):
        return None
    return float(value) if value > 0 else None


def _named(**limits: float | None) -> Mapping[str, float]:
    return {name: value for name, value in limits.items() if value is not None}
