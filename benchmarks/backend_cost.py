"""What our own side of reading a sensor costs, with the hardware taken out.

    python benchmarks/backend_cost.py

NVML answers from constants, RAPL from files in memory, tegrastats' line is the longest
recorded one, and messages are written to a string. What a driver takes on top is
measured by nvml_readings.py on a GPU. Median of the calls, and the 99th percentile.
"""

import io
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edgepipe.telemetry.folding_handler import FoldingHandler
from edgepipe.telemetry.sensors.nvml import find_nvml
from edgepipe.telemetry.sensors.rapl import find_rapl
from edgepipe.telemetry.sensors.tegrastats_line import parse_line
from edgepipe.telemetry.sensors.tree import Tree

CALLS = 20_000
LINES = Path(__file__).parents[1] / "tests/telemetry/sensors/tegrastats_samples.jsonl"


class Constants:
    """A library with pynvml's names whose every call returns at once."""

    NVMLError = OSError

    def __getattr__(self, name: str) -> Callable[..., Any]:
        one = SimpleNamespace(gpu=37, violationTime=5, nvmlReturn=0, valueType=1)
        one.value = SimpleNamespace(uiVal=121_500)
        answers = {
            "nvmlDeviceGetName": "constant",
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetFieldValues": [one],
            "nvmlDeviceGetUtilizationRates": one,
            "nvmlDeviceGetViolationStatus": one,
        }
        answer = answers.get(name, 1)
        return lambda *_: answer


def main() -> None:
    """Print the table."""
    print("us                           median       p99")
    for sensor in find_nvml(time.monotonic_ns, Constants()):
        show(f"{sensor.name}, {len(sensor.channels)} channels", sensor.read)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for number, name in enumerate(("package-0", "core", "uncore", "dram")):
            zone(Path(folder), number, name)
        for sensor in find_rapl(Tree(Path(folder)), time.monotonic_ns):
            show(f"{sensor.name}, {len(sensor.channels)} channels", sensor.read)
            sensor.close()
    lines = [json.loads(line)["line"] for line in LINES.read_text().splitlines()]
    longest = max(lines, key=len)
    show("tegrastats, one line", lambda: parse_line(longest))
    show("a message, folded", message(folded=True))
    show("the same, written", message(folded=False))


def zone(root: Path, number: int, name: str) -> None:
    """The files of one counter."""
    top = "intel-rapl:0"
    folder = root / "sys/class/powercap" / (f"{top}:{number}" if number else top)
    folder.mkdir(parents=True)
    for file, text in (
        ("name", name),
        ("energy_uj", "262143320000"),
        ("max_energy_range_uj", "262143328850"),
    ):
        (folder / file).write_text(f"{text}\n")


def message(folded: bool) -> Callable[[], None]:
    """Logs one more of a kind."""
    plain = logging.StreamHandler(io.StringIO())
    logger = logging.Logger("edgepipe")
    logger.addHandler(FoldingHandler(plain, time.monotonic_ns) if folded else plain)
    numbers = iter(range(10**9))
    return lambda: logger.error("frame %d of %r is damaged", next(numbers), "front")


def show(name: str, call: Callable[[], Any]) -> None:
    """Time it."""
    times: list[float] = []
    for _ in range(CALLS):
        before_ns = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - before_ns) / 1e3)
    p99 = sorted(times)[int(0.99 * CALLS)]
    print(f"{name:26} {statistics.median(times):8.1f} {p99:9.1f}")


if __name__ == "__main__":
    main()
