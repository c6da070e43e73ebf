"""Everything that is found out about a machine, in one call; nothing is changed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.telemetry.machine.activity import (
    Activity,
    Snapshot,
    activity_between,
    take_snapshot,
)
from edgepipe.telemetry.machine.clocks import Clocks, examine_clocks, judge_clocks
from edgepipe.telemetry.machine.files import processors_in
from edgepipe.telemetry.machine.finding import Finding
from edgepipe.telemetry.machine.heat import Heat, examine_heat, judge_heat
from edgepipe.telemetry.machine.identity import (
    Identity,
    examine_identity,
    judge_identity,
)
from edgepipe.telemetry.machine.memory import Memory, examine_memory, judge_memory
from edgepipe.telemetry.machine.power import Power, examine_power, judge_power
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.machine.processors import (
    Processors,
    examine_processors,
    judge_processors,
)
from edgepipe.telemetry.machine.realtime import (
    Realtime,
    examine_realtime,
    judge_realtime,
)
from edgepipe.telemetry.machine.software import (
    Software,
    examine_software,
    judge_software,
)
from edgepipe.telemetry.machine.storage import Storage, examine_storage, judge_storage
from edgepipe.telemetry.machine.timing import Timing, examine_timing, judge_timing
from edgepipe.telemetry.sensors.board import identify, why_no_power
from edgepipe.telemetry.sensors.look import Look
from edgepipe.telemetry.sensors.nvml import GpuUsers
from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.totals import choose_totals
from edgepipe.telemetry.sensors.tree import Tree


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts, as they were read; what they mean is said by :func:`findings`."""

    identity: Identity
    clocks: Clocks
    heat: Heat
    power: Power
    processors: Processors
    memory: Memory
    timing: Timing
    storage: Storage
    realtime: Realtime
    software: Software


@dataclass(frozen=True, slots=True)
class Looks:
    """What is measured beside the files; everything may be left out.

    Args:
        sensors: Read once, or twice with ``pause``; given away, to be closed.
        pause: Lets a moment pass between two looks at the counters; None: one look,
            and nothing is known of what others do.
        runs: Where run folders go.
        step_ns: The smallest step of the clock.
        architecture: Of the running kernel, for kernels that do not show it.
        gpu: Who uses it.
    """

    sensors: Sequence[Sensor] = ()
    pause: Callable[[], None] | None = None
    runs: Path | None = None
    step_ns: int | None = None
    architecture: str | None = None
    gpu: GpuUsers | None = None


def examine_machine(tree: Tree, looks: Looks | None = None) -> Machine:
    """Read what a machine shows of itself; what is unreadable is None, with a reason.

    Nothing is changed, no command is run, and root is not needed. The sensors are
    closed, but for those that hang.
    """
    looks = looks or Looks()
    processes, first = take_snapshot(tree), Look(looks.sensors)
    answering = [each for each in looks.sensors if each not in first.hung]
    second, before = first, list[Reading]()
    activity = None
    if looks.pause is not None:
        looks.pause()
        second, before = Look(answering), first.readings
        activity = _activity(tree, processes)
    for sensor in answering:
        if sensor not in second.hung:
            sensor.close()
    measured = _measured(second.readings, before, {*first.hung, *second.hung})
    return _machine(tree, looks, measured, activity)


def _measured(
    readings: Sequence[Reading], before: Sequence[Reading], hung: Iterable[Sensor]
) -> Measured:
    silent = {each.channel for each in readings if each.value is None}
    totals, reason = choose_totals([each.channel for each in readings], silent)
    names = sorted(each.name for each in hung)
    return Measured(readings, before, totals, reason, names)


def _activity(tree: Tree, before: Snapshot | None) -> Activity | None:
    after = take_snapshot(tree)
    if before is None or after is None:
        return None
    online = processors_in(tree.text("sys/devices/system/cpu/online"))
    return activity_between(before, after, len(online or {0}))


def _machine(
    tree: Tree, looks: Looks, measured: Measured, activity: Activity | None
) -> Machine:
    board = identify(tree)
    identity = examine_identity(tree, board, looks.architecture)
    return Machine(
        identity=identity,
        clocks=examine_clocks(tree, measured, board),
        heat=examine_heat(measured, board),
        power=examine_power(measured, _why_no_power(tree, measured)),
        processors=examine_processors(tree, measured, activity, looks.gpu),
        memory=examine_memory(tree),
        timing=examine_timing(tree, looks.step_ns),
        storage=examine_storage(tree, looks.runs),
        realtime=examine_realtime(tree),
        software=examine_software(tree),
    )


def _why_no_power(tree: Tree, measured: Measured) -> str:
    return "" if measured.of(Kind.POWER, Kind.ENERGY) else why_no_power(tree)


def findings(machine: Machine) -> list[Finding]:
    """What the facts mean for a run, by area; pure."""
    return [*_all(machine)]


def _all(machine: Machine) -> Iterator[Finding]:
    yield from judge_identity(machine.identity)
    yield from judge_clocks(machine.clocks)
    yield from judge_heat(machine.heat)
    yield from judge_power(machine.power)
    yield from judge_processors(machine.processors)
    yield from judge_memory(machine.memory)
    yield from judge_timing(machine.timing)
    yield from judge_storage(machine.storage)
    yield from judge_realtime(machine.realtime)
    yield from judge_software(machine.software)
