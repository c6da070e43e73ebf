"""The machine that this process runs on."""

import time
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
from edgepipe.telemetry.sensors.discover import find_sensors
from edgepipe.telemetry.sensors.nvml import other_gpu_users
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
        sensors=find_sensors("auto", tree, time.monotonic_ns),
        pause=lambda: time.sleep(pause_s),
        runs=runs,
        step_ns=smallest_step_ns(),
        # The files below another root may be those of another machine.
        architecture=running_architecture() if root == Path("/") else None,
        gpu=other_gpu_users(),
    )
    return examine_machine(tree, looks)


def preflight(runs: Path, root: Path = Path("/")) -> list[str]:
    """Why a bench on this machine would not be trusted now; empty: nothing found.

    Takes about half a second, in which it watches what others do.

    Args:
        runs: Where run folders go.
        root: Below which the kernel's files lie.
    """
    return [*fitness(findings(examine_here(runs, root))).reasons]
