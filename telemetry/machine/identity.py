"""What the machine is: board, processor, kernel, virtual or not."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.files import word_of
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.sensors.board import Board
from edgepipe.telemetry.sensors.tree import Tree

SUPPORTED = ("6", "7")
"""Versions of JetPack; of older ones only the sensors are read."""

_found = partial(Finding, Area.MACHINE)


@dataclass(frozen=True, slots=True)
class Identity:
    """None where nobody tells."""

    model: str | None
    """The board's or the computer's own name."""
    soc: str | None
    l4t: str | None
    jetpack: str | None
    is_jetson: bool
    processor: str | None
    architecture: str | None
    virtual: str
    """How it is known that this is a virtual machine; empty: nothing says so."""
    container: str
    """How it is known that this is a container; empty: nothing says so."""
    kernel: str | None


def examine_identity(
    tree: Tree, board: Board, architecture: str | None = None
) -> Identity:
    """Read what there is beside what is known of the board."""
    info = tree.text("proc/cpuinfo")
    return Identity(
        model=board.model,
        soc=board.soc,
        l4t=board.l4t,
        jetpack=board.jetpack,
        is_jetson=board.is_jetson,
        processor=word_of(info, "model name") or word_of(info, "Model"),
        architecture=tree.text("proc/sys/kernel/arch") or architecture,
        virtual=board.virtual_machine,
        container=board.container or _container(tree),
        kernel=tree.text("proc/sys/kernel/osrelease") or None,
    )


def _container(tree: Tree) -> str:
    """What a container that leaves no file of its own is known by."""
    groups = tree.text("proc/self/cgroup") or ""
    found = re.search(r"docker|kubepods|libpod|lxc|containerd", groups)
    return f"control group of {found[0]}" if found else ""


def running_architecture() -> str:
    """Of this process's kernel: ``x86_64``, ``aarch64``."""
    return os.uname().machine


def judge_identity(facts: Identity) -> Iterator[Finding]:
    """What the machine as such means for a run."""
    if facts.model:
        yield _found("product", Level.OK, facts.model)
    else:
        yield not_known(Area.MACHINE, "product", "the firmware names none")
    system = ", ".join(filter(None, (facts.processor or facts.soc, facts.architecture)))
    if system:
        yield _found("processor", Level.OK, system)
    if facts.is_jetson:
        yield _jetpack(facts)
    if facts.kernel:
        yield _found("kernel", Level.OK, f"Linux {facts.kernel}")
    if facts.virtual:
        yield _found(
            "virtual",
            Level.NOTE,
            f"a virtual machine ({facts.virtual})",
            "clocks, heat and power are the host's, and what others do there is seen"
            " as jitter only",
        )
    if facts.container:
        yield _found(
            "container",
            Level.NOTE,
            f"a container ({facts.container})",
            "its limits apply, and some of the host's sensors may be hidden",
        )


def _jetpack(facts: Identity) -> Finding:
    if facts.l4t is None:
        why = "no /etc/nv_tegra_release; a container may not have it"
        return not_known(Area.MACHINE, "JetPack", why)
    text = f"JetPack {facts.jetpack or '(not known)'}, L4T {facts.l4t}"
    if facts.jetpack is None:
        costs = "nobody has tried edgepipe on it"
        return _found("JetPack", Level.NOTE, text, costs)
    if facts.jetpack.partition(".")[0] in SUPPORTED:
        return _found("JetPack", Level.OK, text)
    return _found(
        "JetPack",
        Level.WARNING,
        f"{text}: too old",
        "its sensors are read; edgepipe as a whole is made for JetPack 6 and 7",
    )
