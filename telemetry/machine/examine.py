"""Everything that is found out about a machine, in one call; nothing is changed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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
from edgepipe.telemetry.machine.probe import Measured, look
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
from edgepipe.telemetry.sensors.equipment import Equipment
from edgepipe.telemetry.sensors.nvml import GpuUsers
from edgepipe.telemetry.sensors.reading import Kind, Reading
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
        equipment: Its sensors are read once, or twice with ``pause``, and stay the
            caller's to close.
        pause: Lets a moment pass between two looks at the counters; None: one look,
            and nothing is known of what others do.
        runs: Where run folders go.
        step_ns: The smallest step of the clock.
        architecture: Of the running kernel, for kernels that do not show it.
        gpu: Who uses it.
    """

    equipment: Equipment = field(default_factory=Equipment)
    pause: Callable[[], None] | None = None
    runs: Path | None = None
    step_ns: int | None = None
    architecture: str | None = None
    gpu: GpuUsers | None = None


def examine_machine(tree: Tree, looks: Looks | None = None) -> Machine:
    """Read what a machine shows of itself; what is unreadable is None, with a reason.

    Nothing is changed, no command is run, and root is not needed.
    """
    looks = looks or Looks()
    before, sensors = take_snapshot(tree), looks.equipment.sensors
    first, hung = look(sensors)
    if looks.pause is None:
        return _machine(tree, looks, _measured(looks, first, (), hung), None)
    looks.pause()
    second, hung_later = look([each for each in sensors if each.name not in hung])
    measured = _measured(looks, second, first, (*hung, *hung_later))
    return _machine(tree, looks, measured, _activity(tree, before))


def _measured(
    looks: Looks,
    readings: Sequence[Reading],
    before: Sequence[Reading],
    hung: Sequence[str],
) -> Measured:
    equipment = looks.equipment
    return Measured(readings, before, equipment.totals, equipment.no_power, hung)


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
