"""NVIDIA's GPUs through NVML.

Every call stands alone: what one GPU does not support is asked once, and costs the rest
nothing. A GPU that is lost gives readings without a value until it is back.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from edgepipe.telemetry.sensors.nvml_calls import questions
from edgepipe.telemetry.sensors.nvml_library import (
    Device,
    Library,
    open_library,
    words_of,
)
from edgepipe.telemetry.sensors.nvml_query import Query
from edgepipe.telemetry.sensors.reading import Reading
from edgepipe.telemetry.sensors.sensor import Pace, Sensor


class NvmlSensor:
    """The channels of one GPU that are read at one pace."""

    def __init__(
        self,
        device: Device,
        pace: Pace,
        queries: Sequence[Query],
        now_ns: Callable[[], int],
    ) -> None:
        self.name = f"NVML {device.name} {pace.value}"
        self.pace = pace
        self.channels = tuple(query.channel for query in queries)
        self._device = device
        self._queries = tuple(queries)
        self._now_ns = now_ns
        self._closed = False
        device.library.hold()

    def read(self) -> list[Reading]:
        """One reading for each channel."""
        self._device.begin(self._now_ns())
        return [query.read(self._device, self._now_ns) for query in self._queries]

    def close(self) -> None:
        """Give NVML back when the last of its sensors is closed."""
        if not self._closed:
            self._closed = True
            self._device.library.release()


def find_nvml(now_ns: Callable[[], int], library: Any = None) -> list[Sensor]:
    """Sensors for every GPU of which at least one value can be had.

    A GPU that is not ready or lost at this moment counts as well. Channels that a GPU
    does not support are kept, say why, and are never asked again.

    Args:
        now_ns: The monotonic clock.
        library: An object with pynvml's functions; None imports pynvml.
    """
    opened = open_library(library)
    if opened is None:
        return []
    opened.hold()
    try:
        return [
            sensor
            for index in range(opened.count())
            for sensor in _sensors(opened, index, now_ns)
        ]
    finally:
        opened.release()


def _sensors(
    library: Library, index: int, now_ns: Callable[[], int]
) -> list[NvmlSensor]:
    try:
        device = Device(library, index)
    except library.errors as error:
        library.warn(f"gpu{index} cannot be opened: {words_of(error)}")
        return []
    queries = [Query(each, device) for each in questions(library.api, device.handle)]
    if not (any(query.answers for query in queries) or device.may_come_back):
        library.warn(f"{device.name} ({device.model}) gives no value: not used")
        return []
    return [
        NvmlSensor(device, pace, those, now_ns)
        for pace in Pace
        if (those := [query for query in queries if query.pace is pace])
    ]


class GpuUser(NamedTuple):
    """A process that has work or memory on a GPU."""

    gpu: str
    """``gpu0``."""
    pid: int
    """As the driver sees it: inside a container that may be another number."""
    name: str
    """Its program; empty where it cannot be had."""
    memory_bytes: int | None
    """None where the driver does not tell."""


class GpuUsers(NamedTuple):
    """Who uses the GPUs, apart from this process."""

    users: tuple[GpuUser, ...] | None
    """None: not known, for this reason."""
    reason: str = ""


def other_gpu_users(library: Any = None) -> GpuUsers:
    """Processes that use a GPU; a question for once before a run.

    Args:
        library: An object with pynvml's functions; None imports pynvml.
    """
    opened = open_library(library)
    if opened is None:
        return GpuUsers(None, "NVML is not there")
    opened.hold()
    try:
        found = [_users_of(opened, index) for index in range(opened.count())]
    finally:
        opened.release()
    known = [users for users in found if users is not None]
    if not known:
        return GpuUsers(None, "no GPU tells its processes")
    return GpuUsers(tuple(user for users in known for user in users))


def _users_of(library: Library, index: int) -> list[GpuUser] | None:
    """None when not one list can be had."""
    users: dict[int, GpuUser] = {}
    known = False
    for which in ("Compute", "Graphics", "MPSCompute"):
        processes = _processes(library, index, which)
        known = known or processes is not None
        for process in processes or ():
            users.setdefault(process.pid, _user(library, index, process))
    users.pop(os.getpid(), None)
    return list(users.values()) if known else None


def _processes(library: Library, index: int, which: str) -> list[Any] | None:
    """One of the lists, by the call of today's drivers or by the one before."""
    for version in ("", "_v2"):
        name = f"nvmlDeviceGet{which}RunningProcesses{version}"
        with suppress(*library.errors):
            handle = library.api.nvmlDeviceGetHandleByIndex(index)
            return list(getattr(library.api, name)(handle))
    return None


def _user(library: Library, index: int, process: Any) -> GpuUser:
    try:
        name = library.api.nvmlSystemGetProcessName(process.pid)
    except library.errors:
        name = ""
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    return GpuUser(f"gpu{index}", process.pid, str(name), process.usedGpuMemory)
