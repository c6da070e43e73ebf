"""One look at every sensor; one that hangs holds nobody up."""

import logging
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread

from edgepipe.telemetry.sensors.reading import Reading
from edgepipe.telemetry.sensors.sensor import Sensor

log = logging.getLogger(__name__)

WAIT_S = 2.0
"""How long a sensor may take before it is left out."""


class Look:
    """What all sensors say once; ``hung`` did not answer in time.

    Those keep the thread that waits for them, which is lost: they must be neither read
    again nor closed. Sensors are read one after the other, as in a run.

    Args:
        sensors: Read in their order.
        wait_s: How long to wait for each.
    """

    def __init__(self, sensors: Sequence[Sensor], wait_s: float = WAIT_S) -> None:
        self.readings: list[Reading] = []
        self.hung: list[Sensor] = []
        reader: _Reader | None = None
        for n, sensor in enumerate(sensors):
            reader = reader or _Reader(sensors[n:])
            try:
                self.readings += reader.answers.get(timeout=wait_s)
            except Empty:
                self.hung.append(sensor)
                reader.given_up.set()
                reader = None


class _Reader:
    """Reads sensors in a thread of its own until it is given up."""

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        self.answers: SimpleQueue[Sequence[Reading]] = SimpleQueue()
        self.given_up = Event()
        Thread(target=self._run, args=(sensors,), name="look", daemon=True).start()

    def _run(self, sensors: Sequence[Sensor]) -> None:
        for sensor in sensors:
            if self.given_up.is_set():
                return
            try:
                self.answers.put(sensor.read())
            except Exception:  # the thread's edge: a bug costs its sensor only
                log.exception("sensor %s: this is a bug in edgepipe", sensor.name)
                self.answers.put(())
