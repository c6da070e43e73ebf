"""What NVML tells of a GPU, what each call costs, and whether its figures agree.

    python benchmarks/nvml_readings.py --seconds 20

Four tables: every reading through edgepipe's sensors; each call alone, with the median
and the longest of 300 calls in microseconds; how often the energy counter and the
powers change, when they are asked as often as they can be; and energy over the same
seconds by the counter and by integrating each power (trapezoid, 47 readings a second),
with the GPU idle and, where torch is installed, multiplying matrices in a process of
its own, without a pause and for 40 of each 100 ms. Nothing is set on the GPU.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

from edgepipe.telemetry.sensors.nvml import find_nvml
from edgepipe.telemetry.sensors.nvml_calls import Call, Question, questions
from edgepipe.telemetry.sensors.nvml_library import Device, Library, open_library
from edgepipe.telemetry.sensors.reading import Kind

CALLS = 300
RATE_HZ = 47.0
SETTLE_S = 3.0
LOADS = {"idle": "", "busy": "1.0", "40 % of the time": "0.4"}

Named = list[tuple[str, Call]]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--load", type=float, help="only load the GPU, for this share")
    args = parser.parse_args()
    if args.load is not None:
        multiply(args.load)
    library = open_library()
    if library is None or not library.count():
        sys.exit("there is no NVIDIA GPU")
    device = Device(library, 0)
    print(f"{device.model}, driver {library.api.nvmlSystemGetDriverVersion()}\n")
    show_readings()
    asked = questions(library.api, device.handle)
    show_costs(library, device, asked)
    show_periods(device, asked, min(args.seconds, 10.0))
    show_energy(device, asked, args.seconds)


def show_readings() -> None:
    """Each reading of each GPU, as a run would have it, and the cost of the sweeps."""
    sensors = find_nvml(time.monotonic_ns)
    for sensor in sensors:
        for reading in sensor.read():
            value = "-" if reading.value is None else f"{reading.value:.6g}"
            channel = reading.channel
            print(f"{channel.key:24} {value:>14} {channel.unit:6} {reading.reason}")
    print()
    for sensor in sensors:
        median_us, most_us = cost_us(sensor.read)
        print(f"{sensor.name:24} {median_us:9.1f} us a read, longest {most_us:.0f}")
        sensor.close()


def named(asked: list[Question]) -> Named:
    """Each call with a name."""
    return [
        (f"{each.kind.value}{each.part} ({number + 1})", way.call)
        for each in asked
        for number, way in enumerate(each.ways)
    ]


def show_costs(library: Library, device: Device, asked: list[Question]) -> None:
    """What each call takes, or why it gives nothing."""
    print("\ncall, us                    median   longest")
    for name, call in named(asked):
        try:
            call(device.handle)
        except library.errors as error:
            print(f"{name:24} {error}")
            continue
        median_us, most_us = cost_us(partial(call, device.handle))
        print(f"{name:24} {median_us:9.1f} {most_us:9.0f}")


def cost_us(read: Callable[[], Any]) -> tuple[float, float]:
    """Median and longest of many calls, in microseconds."""
    times: list[float] = []
    for _ in range(CALLS):
        before_ns = time.perf_counter_ns()
        read()
        times.append((time.perf_counter_ns() - before_ns) / 1e3)
    return statistics.median(times), max(times)


def energies_and_powers(device: Device, asked: list[Question]) -> Named:
    """The calls for energy (in mJ) and power (in W) that answer."""
    wanted = [each for each in asked if each.kind in (Kind.ENERGY, Kind.POWER)]
    return [
        (name, call) for name, call in named(wanted) if answers(call, device.handle)
    ]


def answers(call: Call, handle: Any) -> bool:
    """Whether a call gives anything."""
    try:
        return call(handle) > 0
    except Exception:  # noqa: BLE001 - whatever it is, it is no answer
        return False


def show_periods(device: Device, asked: list[Question], seconds: float) -> None:
    """How far the changes of each figure lie apart."""
    print("\nchanges, ms                 median       p90   longest  changes")
    for name, call in energies_and_powers(device, asked):
        gaps = changes_ms(partial(call, device.handle), seconds)
        if len(gaps) < 2:
            print(f"{name:24} fewer than three changes in {seconds:g} s")
            continue
        p90 = sorted(gaps)[int(0.9 * len(gaps))]
        print(
            f"{name:24} {statistics.median(gaps):9.2f} {p90:9.2f} {max(gaps):9.1f}"
            f" {len(gaps) + 1:8}"
        )


def changes_ms(read: Callable[[], float], seconds: float) -> list[float]:
    """Times between changes of a value that is read again and again."""
    until_ns = time.perf_counter_ns() + int(seconds * 1e9)
    last, moments = read(), list[int]()
    while (now_ns := time.perf_counter_ns()) < until_ns:
        if (value := read()) != last:
            last = value
            moments.append(now_ns)
    return [(b - a) / 1e6 for a, b in pairwise(moments)]


def show_energy(device: Device, asked: list[Question], seconds: float) -> None:
    """Energy by the counter and by each power, without and with load."""
    ways = energies_and_powers(device, asked)
    print(f"\nover {seconds:g} s, J" + "".join(f"{name:>16}" for name, _ in ways))
    torch_there = importlib.util.find_spec("torch") is not None
    for label, share in LOADS.items():
        if share and not torch_there:
            print(f"{label:16} torch is not installed")
            continue
        with loaded(share):
            time.sleep(SETTLE_S)
            joules = measured_j(device, ways, seconds)
        print(f"{label:16}" + "".join(f"{each:16.1f}" for each in joules))


@contextmanager
def loaded(share: str) -> Generator[None, None, None]:
    """A process that keeps the GPU busy for this share of the time; empty: none."""
    if not share:
        yield
        return
    command = [sys.executable, __file__, "--load", share]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it is warm
        try:
            yield
        finally:
            child.kill()


def measured_j(device: Device, ways: Named, seconds: float) -> list[float]:
    """One figure for each way, all over the same time."""
    rows: list[list[tuple[int, float]]] = [[] for _ in ways]
    started_ns = time.monotonic_ns()
    sweep = 0
    while time.monotonic_ns() - started_ns < seconds * 1e9:
        for row, (_, call) in zip(rows, ways, strict=True):
            before_ns = time.monotonic_ns()
            value = call(device.handle)
            row.append(((before_ns + time.monotonic_ns()) // 2, value))
        sweep += 1
        rest_s = started_ns / 1e9 + sweep / RATE_HZ - time.monotonic()
        time.sleep(max(0.0, rest_s))
    return [
        (row[-1][1] - row[0][1]) / 1e3 if name.startswith("energy") else trapezoid(row)
        for row, (name, _) in zip(rows, ways, strict=True)
    ]


def trapezoid(row: list[tuple[int, float]]) -> float:
    """Joules of readings in watts."""
    return sum((b - a) / 1e9 * (p + q) / 2 for (a, p), (b, q) in pairwise(row))


def multiply(share: float) -> None:
    """Multiply matrices for this share of each 100 ms, until killed."""
    torch: Any = importlib.import_module("torch")
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    for _ in range(20):
        torch.mm(matrix, matrix)
    torch.cuda.synchronize()
    print("warm", flush=True)
    while True:
        begun = time.monotonic()
        while time.monotonic() - begun < 0.1 * share:
            torch.mm(matrix, matrix)
            torch.cuda.synchronize()
        time.sleep(max(0.0, begun + 0.1 - time.monotonic()))


if __name__ == "__main__":
    main()
