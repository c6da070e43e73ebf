"""Supply rails: what they deliver, from power files or from volts times amperes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from edgepipe.telemetry.sensors.reading import Channel, Quality, Reading, no_reading
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.tree import Handle, Number, read_number

MOST_MV, MOST_MA = 10**6, 10**7
"""1 kV, 10 kA: no sensor that is read here measures more."""
_MOST_W = 10**6
_UNITS_DIFFER = 3.0
"""Power that is so many times V*I, or V*I that power, has another unit."""
_CHECK_EACH = 50
"""A power whose unit has proved right is checked again after so many readings."""
_NOISE_MA = 3
"""Currents of up to so many mA prove nothing: they are steps of the sensor."""


class Watts(NamedTuple):
    """A power, or why there is none, or why it is doubtful."""

    value: float | None
    reason: str = ""


class Rail(Protocol):
    """A source of one rail's power."""

    def measure(self) -> Watts:
        """Its power now."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


class PowerFile:
    """A rail whose driver tells power, of one conversion.

    Args:
        handle: The file.
        per_watt: Counts in a watt.
    """

    def __init__(self, handle: Handle, per_watt: int) -> None:
        self._handle = handle
        self._per_watt = per_watt

    def measure(self) -> Watts:
        """The power as the driver tells it."""
        count, reason = read_number(self._handle)
        if count is None:
            return Watts(None, reason)
        if abs(count) > _MOST_W * self._per_watt:
            return Watts(None, f"{count} cannot be a measurement")
        return Watts(count / self._per_watt)

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


class VoltsTimesAmperes:
    """A rail that tells voltage (mV) and current (mA), read one after the other.

    Args:
        millivolts: The one file.
        milliamperes: The other.
        most_mv: More than this, in either direction, the sensor cannot measure.
        most_ma: The same of the current.
    """

    def __init__(
        self,
        millivolts: Handle,
        milliamperes: Handle,
        most_mv: int = MOST_MV,
        most_ma: int = MOST_MA,
    ) -> None:
        self._millivolts = millivolts
        self._milliamperes = milliamperes
        self._most_mv = most_mv
        self._most_ma = most_ma

    def parts(self) -> tuple[Number, Number]:
        """Millivolts and milliamperes."""
        return (
            _within(read_number(self._millivolts), self._most_mv),
            _within(read_number(self._milliamperes), self._most_ma),
        )

    def measure(self) -> Watts:
        """Their product; negative when current flows backwards."""
        (mv, no_mv), (ma, no_ma) = self.parts()
        if mv is None:
            return Watts(None, f"voltage: {no_mv}")
        if ma is None:
            return Watts(None, f"current: {no_ma}")
        return Watts(mv * ma / 1e6)

    def close(self) -> None:
        """Close the files."""
        self._millivolts.close()
        self._milliamperes.close()


def _within(number: Number, most: int) -> Number:
    value = number.value
    if value is not None and abs(value) > most:
        return Number(None, f"{value} cannot be a measurement")
    return number


class CheckedPower:
    """A power file whose unit is checked against volts times amperes.

    The kernel's rule is microwatts, and some drivers give milliwatts. Where the two
    contradict each other, V*I is given and called doubtful.
    """

    def __init__(self, power: PowerFile, product: VoltsTimesAmperes) -> None:
        self._power = power
        self._product = product
        self._agreed: bool | None = None
        """At the last check that could tell; None: there was none."""
        self._due = 0

    def measure(self) -> Watts:
        """The power, or V*I if the unit of the power is wrong."""
        told = self._power.measure()
        if told.value is None or self._due > 0:
            self._due -= 1
            return told
        (mv, no_mv), (ma, no_ma) = self._product.parts()
        if mv is None or ma is None:
            return self._unchecked(told, no_mv or no_ma)
        return self._checked(told.value, mv, ma)

    def _unchecked(self, told: Watts, reason: str) -> Watts:
        if self._agreed:
            return told
        if self._agreed is None:
            return Watts(told.value, f"not checked against V*I: {reason}")
        return Watts(None, f"its unit is wrong, and V*I cannot be had: {reason}")

    def _checked(self, told_w: float, mv: int, ma: int) -> Watts:
        product_w = mv * ma / 1e6
        if max(abs(told_w), abs(product_w)) <= abs(mv) * _NOISE_MA / 1e6:
            return Watts(told_w)
        if product_w == 0:
            return Watts(told_w, "volts times amperes are 0, the power is not")
        ratio = abs(told_w / product_w)
        self._agreed = 1 / _UNITS_DIFFER <= ratio <= _UNITS_DIFFER
        if self._agreed:
            self._due = _CHECK_EACH
            return Watts(told_w)
        # A power file has no sign: what flows backwards is told as what flows.
        value = abs(product_w) if told_w >= 0 else product_w
        return Watts(value, "unit doubtful: the power file is not V*I, which is given")

    def close(self) -> None:
        """Close the files."""
        self._power.close()
        self._product.close()


class RailSensor:
    """The rails of one chip, read one after the other at each sweep.

    Args:
        name: For messages: ``ina3221 1-0040``.
        rails: With their channels.
        now_ns: The monotonic clock.
        pace: How often.
    """

    def __init__(
        self,
        name: str,
        rails: Sequence[tuple[Channel, Rail]],
        now_ns: Callable[[], int],
        pace: Pace = Pace.FAST,
    ) -> None:
        self.name = name
        self.pace = pace
        self.channels = tuple(channel for channel, _ in rails)
        self._rails = tuple(rails)
        self._now_ns = now_ns

    def read(self) -> list[Reading]:
        """One reading for each rail, at the middle of its reads."""
        readings: list[Reading] = []
        before_ns = self._now_ns()
        for channel, rail in self._rails:
            value, reason = rail.measure()
            after_ns = self._now_ns()
            at_ns, before_ns = (before_ns + after_ns) // 2, after_ns
            if value is None:
                readings.append(no_reading(channel, at_ns, reason))
            elif reason:
                doubtful = Quality.DOUBTFUL
                readings.append(Reading(channel, value, at_ns, reason, doubtful))
            else:
                readings.append(Reading(channel, value, at_ns))
        return readings

    def close(self) -> None:
        """Close the files."""
        for _, rail in self._rails:
            rail.close()
