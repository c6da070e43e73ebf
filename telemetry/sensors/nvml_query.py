"""One channel of a GPU and the calls that may fill it."""

from collections.abc import Callable

from edgepipe.telemetry.sensors.counting import GrowingCounter
from edgepipe.telemetry.sensors.nvml_calls import (
    PER_JOULE,
    Question,
    Way,
)
from edgepipe.telemetry.sensors.nvml_library import Device, is_final, words_of
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace

_MOST_W = 10_000.0
"""No board takes as much; more is a counter that started anew."""
_UNSUPPORTED = "not supported by this GPU and driver"


class Query:
    """Asks one question of a GPU; calls that are not supported are struck off for good.

    The first call that answers at the beginning stays the only one: what a channel
    means may not change with a driver's mood.
    """

    def __init__(self, question: Question, device: Device) -> None:
        self._ways = list(question.ways)
        self._worked = False
        self._reason = _UNSUPPORTED
        # nvgpu, the driver of Jetsons, says 0 for what it does not measure.
        self._zero = question.zero and "nvgpu" not in device.model
        self._counter = (
            GrowingCounter(PER_JOULE, None, _MOST_W)
            if question.kind is Kind.ENERGY
            else None
        )
        self._ask(device)
        self.answers = self._worked
        """Whether it gave a value when it was made."""
        self.pace = question.pace if self._ways else Pace.SLOW
        """What never has a value need not be told more than once a second."""
        self.channel = _channel(question, self._ways, device)

    def read(self, device: Device, now_ns: Callable[[], int]) -> Reading:
        """The value now, or why there is none; a lost device is not asked."""
        before_ns = now_ns()
        if device.lost and self._ways:
            return no_reading(self.channel, before_ns, device.lost)
        value = self._ask(device)
        at_ns = (before_ns + now_ns()) // 2
        if value is None:
            return no_reading(self.channel, at_ns, self._reason)
        if self._counter is None:
            return Reading(self.channel, value, at_ns)
        total, doubt = self._counter.take(int(value), at_ns)
        quality = Quality.DOUBTFUL if doubt else Quality.GOOD
        return Reading(self.channel, total / PER_JOULE, at_ns, doubt, quality)

    def _ask(self, device: Device) -> float | None:
        for way in tuple(self._ways):
            value = self._try(way, device)
            if value is not None:
                self._ways[:] = [way]
                self._worked = True
                device.answered()
                return value
        return None

    def _try(self, way: Way, device: Device) -> float | None:
        try:
            value = way.call(device.handle)
        except device.library.errors as error:
            self._failed(way, error, device)
            return None
        if value == 0 and not self._zero:
            self._reason = "the driver says 0: not measured"
            return None
        return value

    def _failed(self, way: Way, error: Exception, device: Device) -> None:
        self._reason = words_of(error)
        if not is_final(error):
            device.failed(error)
        elif not self._worked:
            self._ways.remove(way)


def _channel(question: Question, ways: list[Way], device: Device) -> Channel:
    # Which of several will answer later is not known, and so is how it smooths.
    way = ways[0] if len(ways) == 1 else None
    notes = [way.note] if way and way.note else []
    if question.scope is not None and device.sliced:
        notes.append("all MIG slices together")
    return Channel(
        question.kind,
        device.name + question.part,
        ", ".join([f"NVML {device.index}", *notes]),
        question.scope,
        way.tau_s if way else None,
        question.step,
        question.limits,
    )
