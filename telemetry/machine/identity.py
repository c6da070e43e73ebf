"""What the machine is: board, processor, kernel, virtual or not."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.files import word_of
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.sensors.tree import Tree

_found = partial(Finding, Area.MACHINE)


@dataclass(frozen=True, slots=True)
class Identity:
    """None where nobody tells."""

    product: str | None
    """The board's or the computer's own name."""
    processor: str | None
    architecture: str | None
    virtual: str | None
    """How it is known that this is a virtual machine; None: nothing says so."""
    container: str | None
    """How it is known that this is a container; None: nothing says so."""
    kernel: str | None


def examine_identity(tree: Tree, architecture: str | None = None) -> Identity:
    """Read what there is."""
    info = tree.text("proc/cpuinfo")
    return Identity(
        product=_product(tree),
        processor=word_of(info, "model name") or word_of(info, "Model"),
        architecture=tree.text("proc/sys/kernel/arch") or architecture,
        virtual=_virtual(tree, info),
        container=_container(tree),
        kernel=_kernel(tree),
    )


def _product(tree: Tree) -> str | None:
    for path in ("proc/device-tree/model", "sys/class/dmi/id/product_name"):
        if name := tree.text(path):
            return name
    return None


def _virtual(tree: Tree, info: str | None) -> str | None:
    if re.search(r"\bhypervisor\b", word_of(info, "flags") or ""):
        return "hypervisor flag of the processor"
    if kind := tree.text("sys/hypervisor/type"):
        return f"hypervisor {kind}"
    compatible = tree.text("proc/device-tree/hypervisor/compatible")
    return f"device tree names the hypervisor {compatible}" if compatible else None


def _container(tree: Tree) -> str | None:
    for name in (".dockerenv", "run/.containerenv"):
        if tree.text(name) is not None:
            return f"/{name}"
    groups = tree.text("proc/self/cgroup") or ""
    found = re.search(r"docker|kubepods|libpod|lxc|containerd", groups)
    return f"control group of {found[0]}" if found else None


def _kernel(tree: Tree) -> str | None:
    release = tree.text("proc/sys/kernel/osrelease")
    return f"Linux {release}" if release else None


def running_architecture() -> str:
    """Of this process's kernel: ``x86_64``, ``aarch64``."""
    return os.uname().machine


def judge_identity(facts: Identity) -> Iterator[Finding]:
    """What the machine as such means for a run."""
    if facts.product:
        yield _found("product", Level.OK, facts.product)
    else:
        yield not_known(Area.MACHINE, "product", "the firmware names none")
    system = ", ".join(filter(None, (facts.processor, facts.architecture)))
    if system:
        yield _found("processor", Level.OK, system)
    if facts.kernel:
        yield _found("kernel", Level.OK, facts.kernel)
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
