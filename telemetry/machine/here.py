"""The machine that this process runs on."""

import time
from collections.abc import Callable
from pathlib import Path

from edgepipe.telemetry.machine.examine import (
    Looks,
    Machine,
    examine_machine,
    findings,
)
from edgepipe.telemetry.machine.identity import running_architecture
from edgepipe.telemetry.machine.timing import smallest_step_ns
from edgepipe.telemetry.machine.verdict import fitness
from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.nvml import find_nvml, other_gpu_users
from edgepipe.telemetry.sensors.rapl import find_rapl
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.tree import Tree

PAUSE_S = 0.5
"""Between two looks at what others do: 50 ticks of most kernels."""


def examine_here(
    runs: Path, root: Path = Path("/"), pause_s: float = PAUSE_S
) -> Machine:
    """Examine this machine; takes a little longer than ``pause_s``.

    Args:
        runs: Where run folders go.
        root: Below which the kernel's files lie: a container may have its host's.
        pause_s: How long to watch what others do.
    """
    tree = Tree(root)
    looks = Looks(
        sensors=sensors_of(tree, time.monotonic_ns),
        pause=lambda: time.sleep(pause_s),
        runs=runs,
        step_ns=smallest_step_ns(),
        # The files below another root may be those of another machine.
        architecture=running_architecture() if root == Path("/") else None,
        gpu=other_gpu_users(),
    )
    return examine_machine(tree, looks)


def sensors_of(tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    """Every sensor of a machine; the caller's to close."""
    return [
        *find_board(tree, now_ns),
        *find_rapl(tree, now_ns),
        *find_nvml(now_ns),
    ]


def preflight(runs: Path, root: Path = Path("/")) -> list[str]:
    """Why a bench on this machine would not be trusted now; empty: nothing found.

    Takes about half a second, in which it watches what others do.

    Args:
        runs: Where run folders go.
        root: Below which the kernel's files lie.
    """
    return [*fitness(findings(examine_here(runs, root))).reasons]
