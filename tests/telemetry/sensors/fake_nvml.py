"""NVML libraries that answer as certain machines do, chosen by name."""
# ruff: noqa: N802 - pynvml chose the names

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

NOT_SUPPORTED, UNINITIALIZED, LOST, NOT_READY = 3, 1, 15, 27
LIBRARY_MISSING, UNKNOWN = 12, 999

WORDS = {1: "Uninitialized", 3: "Not Supported", 15: "GPU is lost", 27: "Not Ready"}


class NVMLError(Exception):
    """As pynvml's: the number is ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__(WORDS.get(value, f"NVML Error with code {value}"))
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """As pynvml's, which is no NVMLError: the driver is too old for a call."""


class Refusal(int):
    """Stands in a machine's table for a call that fails with this number."""


SERVER: Mapping[str, Any] = {
    "Name": "NVIDIA H200",
    "UUID": "GPU-1",
    "CudaComputeCapability": (9, 0),
    "TotalEnergyConsumption": 5_000_000,
    "PowerUsage": 120_000,
    "field 186": 121_500,
    "EnforcedPowerLimit": 700_000,
    "ClockInfo": {1: 1980, 2: 3201},
    "MaxClockInfo": {1: 1980, 2: 3201},
    "UtilizationRates": SimpleNamespace(gpu=37, memory=5),
    "CurrentClocksEventReasons": 0x1,
    "Temperature": 41,
    "TemperatureThreshold": {0: 92, 1: 89},
    "ViolationStatus": {
        0: SimpleNamespace(violationTime=1_500_000_000),
        1: SimpleNamespace(violationTime=0),
    },
    "MigMode": [0, 0],
}

MACHINES: Mapping[str, Mapping[str, Any]] = {
    "server": SERVER,
    "orin nvgpu": {"Name": "Orin (nvgpu)"},
    "orin zeros": {
        "Name": "Orin (nvgpu)",
        "PowerUsage": 0,
        "Temperature": 0,
        "ClockInfo": {1: 0, 2: 0},
        "UtilizationRates": SimpleNamespace(gpu=0, memory=0),
    },
    "thor": {
        "Name": "NVIDIA Thor",
        "UtilizationRates": SimpleNamespace(gpu=12, memory=0),
        "ClockInfo": {1: 1575},
        "CurrentClocksEventReasons": 0,
    },
    "old driver": {
        **{k: v for k, v in SERVER.items() if k != "CurrentClocksEventReasons"},
        "CurrentClocksThrottleReasons": 0x4,
        "CudaComputeCapability": (6, 1),
        "TotalEnergyConsumption": Refusal(NOT_SUPPORTED),
        "field 186": Refusal(NOT_SUPPORTED),
    },
    "averaging": {
        **SERVER,
        "CudaComputeCapability": (8, 6),
        "field 186": Refusal(NOT_SUPPORTED),
    },
    "ga100": {
        **SERVER,
        "CudaComputeCapability": (8, 0),
        "field 186": Refusal(NOT_SUPPORTED),
    },
    "slices": {
        **SERVER,
        "MigMode": [1, 1],
        "UtilizationRates": Refusal(NOT_SUPPORTED),
    },
}


class FakeNvml:
    """pynvml's functions over a table that a test may change between two reads.

    What the table lacks is not supported; a name in ``lacking`` is not even there.
    """

    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError

    def __init__(self, machine: str = "server", count: int = 1) -> None:
        self.answers = dict(MACHINES[machine])
        self.calls: Counter[str] = Counter()
        self.lacking = set[str]()
        self.count = count
        self.init: int | None = None
        """The number with which initialising fails."""
        self.everything: int | None = None
        """The number with which every call to a device fails."""
        self.opened = 0
        self.running: dict[str, list[SimpleNamespace]] = {}

    def nvmlInit(self) -> None:
        self.calls["Init"] += 1
        if self.init is not None:
            raise NVMLError(self.init)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        if not self.opened:
            raise NVMLError(UNINITIALIZED)
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        if self.count < 0:
            raise NVMLError(NOT_SUPPORTED)
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._device("HandleByIndex")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        self._device("HandleByUUID")
        return 0

    def nvmlSystemGetProcessName(self, pid: int) -> bytes:
        if pid == 7:
            raise NVMLError(6)
        return f"/usr/bin/program-{pid}".encode()

    def nvmlDeviceGetFieldValues(
        self, handle: int, fields: list[int]
    ) -> list[SimpleNamespace]:
        answer = self._look_up(f"field {fields[0]}")
        return [
            SimpleNamespace(
                nvmlReturn=int(answer) if isinstance(answer, Refusal) else 0,
                valueType=1,
                value=SimpleNamespace(uiVal=answer),
            )
        ]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        what = name.removeprefix("nvmlDeviceGet")
        if what == name or what in self.lacking:
            raise AttributeError(name)
        if "RunningProcesses" in what:
            return partial(self._processes, what)
        return partial(self._answer, what)

    def _answer(self, what: str, _handle: int, *which: int) -> Any:
        answer = self._look_up(what)
        if which and isinstance(answer, dict):
            table = cast(dict[int, Any], answer)
            answer = table.get(which[0], Refusal(NOT_SUPPORTED))
        if isinstance(answer, Refusal):
            raise NVMLError(int(answer))
        return answer

    def _look_up(self, what: str) -> Any:
        self._device(what)
        return self.answers.get(what, Refusal(NOT_SUPPORTED))

    def _device(self, what: str) -> None:
        self.calls[what] += 1
        if not self.opened:
            raise NVMLError(UNINITIALIZED)
        if self.everything is not None:
            raise NVMLError(self.everything)

    def _processes(self, what: str, _handle: int) -> list[SimpleNamespace]:
        if what not in self.running:
            old = f"{what}_v2" in self.running
            raise NVMLLibraryMismatchError if old else NVMLError(NOT_SUPPORTED)
        return self.running[what]
