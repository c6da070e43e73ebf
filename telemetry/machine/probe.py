"""One look at every sensor; one that hangs holds nobody up."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread

from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.totals import Total

WAIT_S = 2.0
"""How long the slowest sensor may take before it is left out."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the sensors said, in one look or two."""

    readings: Sequence[Reading] = ()
    """Of the last look."""
    before: Sequence[Reading] = ()
    """Of the first look, where there were two."""
    totals: Sequence[Total] = ()
    """What the whole machine takes in, by which rule."""
    no_total: str = ""
    """Why there is none; empty if there is one."""
    hung: Sequence[str] = ()
    """Sensors that did not answer."""

    def of(self, *kinds: Kind) -> list[Reading]:
        """The last readings of some kinds, in the order of the sensors."""
        return [each for each in self.readings if each.channel.kind in kinds]


def look(
    sensors: Sequence[Sensor], wait_s: float = WAIT_S
) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """Each sensor's readings, and the names of those that did not answer in time.

    Those keep a thread, which is lost; they must be neither read again nor closed.
    """
    answers: dict[int, Sequence[Reading]] = {}

    def read(number: int, sensor: Sensor) -> None:
        answers[number] = sensor.read()

    threads = [
        Thread(target=read, args=each, name="look", daemon=True)
        for each in enumerate(sensors)
    ]
    give_up_s = time.monotonic() + wait_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, give_up_s - time.monotonic()))
    found = dict(answers)
    return (
        tuple(reading for n in sorted(found) for reading in found[n]),
        tuple(each.name for n, each in enumerate(sensors) if n not in found),
    )
