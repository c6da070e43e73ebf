"""Which processors a run may use, and who else uses them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.activity import SHOWN, Activity
from edgepipe.telemetry.machine.files import as_list, processors_in, word_of
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.groups import quota_cores
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.nvml import GpuUser, GpuUsers
from edgepipe.telemetry.sensors.reading import Kind
from edgepipe.telemetry.sensors.tree import Tree

OTHERS_SHARE = 0.1
"""Part of the usable processors that others may use before it is a warning."""
GPU_LOAD = 0.05
"""The same for a GPU."""
STOLEN_CPUS = 0.01
"""The same for what the host of a virtual machine takes away."""

_found = partial(Finding, Area.PROCESSORS)
_unknown = partial(not_known, Area.PROCESSORS)


@dataclass(frozen=True, slots=True)
class Processors:
    """Numbers of processors; None where the kernel does not tell."""

    online: frozenset[int] | None
    offline: frozenset[int] | None
    usable: frozenset[int] | None
    """By this process's affinity."""
    isolated: frozenset[int] | None
    """Kept free of ordinary work by the kernel's command line."""
    quota_cores: float | None
    """None: no control group sets a limit."""
    threads_share_cores: bool | None
    nodes: int | None
    """Groups of processors with memory of their own."""
    load_1min: float | None
    balances_interrupts: bool
    """Whether irqbalance was seen."""
    activity: Activity | None
    """None: nobody looked twice."""
    gpu: GpuUsers | None
    """Who uses the GPU; None: nobody asked."""
    gpu_loads: Mapping[str, float]
    """How busy each GPU is, 0 to 1, as far as it tells."""


def examine_processors(
    tree: Tree,
    measured: Measured,
    activity: Activity | None = None,
    gpu: GpuUsers | None = None,
) -> Processors:
    """Read what there is; what others do was found out before."""
    cpu = "sys/devices/system/cpu"
    online = processors_in(tree.text(f"{cpu}/online"))
    allowed = processors_in(word_of(tree.text("proc/self/status"), "Cpus_allowed_list"))
    nodes = processors_in(tree.text("sys/devices/system/node/online"))
    smt = tree.number(f"{cpu}/smt/active").value
    return Processors(
        online=online or None,
        offline=processors_in(tree.text(f"{cpu}/offline")),
        usable=allowed if online is None or allowed is None else allowed & online,
        isolated=processors_in(tree.text(f"{cpu}/isolated")),
        quota_cores=quota_cores(tree),
        threads_share_cores=None if smt is None else smt > 0,
        nodes=None if nodes is None else len(nodes),
        load_1min=_load(tree),
        balances_interrupts=activity is not None and activity.balances_interrupts,
        activity=activity,
        gpu=gpu,
        gpu_loads=_loads(measured),
    )


def _loads(measured: Measured) -> dict[str, float]:
    """The lower one of two looks: what flickers is no work."""
    before = {each.channel: each.value for each in measured.before}
    return {
        each.channel.name: min(each.value, before.get(each.channel) or each.value)
        for each in measured.of(Kind.LOAD)
        if each.value is not None
    }


def _load(tree: Tree) -> float | None:
    words = (tree.text("proc/loadavg") or "").split()
    try:
        return float(words[0])
    except (ValueError, IndexError):
        return None


def judge_processors(facts: Processors) -> Iterator[Finding]:
    """What the processors mean for a run."""
    yield _usable(facts)
    if facts.offline:
        yield _found(
            "offline",
            Level.NOTE,
            f"processors {as_list(facts.offline)} are switched off",
            "a power mode may do that; figures stand for the others only",
        )
    if facts.quota_cores is not None:
        yield _quota(facts.quota_cores, facts.usable)
    yield _others(facts)
    yield from _gpu(facts.gpu_loads, (facts.gpu and facts.gpu.users) or ())
    if facts.activity is not None and facts.activity.stolen_cpus >= STOLEN_CPUS:
        yield _stolen(facts.activity.stolen_cpus)
    if facts.threads_share_cores:
        yield _found(
            "SMT",
            Level.NOTE,
            "on: two logical processors share each core",
            "how long a stage takes depends on what its neighbour does",
            "use one processor of each core: run.placement.cpu.cpus",
        )
    if facts.balances_interrupts:
        yield _interrupts(facts)
    yield from _layout(facts)


def _usable(facts: Processors) -> Finding:
    if facts.online is None:
        return _unknown("usable", "the kernel lists no processors")
    if facts.usable is None:
        return _unknown("usable", f"{len(facts.online)} are online; no affinity read")
    text = f"{len(facts.usable)} of {len(facts.online)} online"
    text += f" ({as_list(facts.usable)})"
    if facts.usable == facts.online:
        return _found("usable", Level.OK, text)
    return _found(
        "usable",
        Level.NOTE,
        text,
        "the others are not used: taskset, a control group or a service binds edgepipe",
    )


def _quota(cores: float, usable: frozenset[int] | None) -> Finding:
    text = f"a control group grants {cores:g} cores"
    if usable is not None and cores >= len(usable):
        return _found("quota", Level.OK, text)
    return _found(
        "quota",
        Level.WARNING,
        text,
        "when the quota of a period (100 ms, usually) is used up, every thread stands"
        " still until the next",
        "run it without --cpus or CPUQuota=, or bind it to processors instead",
    )


def _others(facts: Processors) -> Finding:
    load = "" if facts.load_1min is None else f"; load average {facts.load_1min:g}"
    if facts.activity is None:
        return _unknown("others", f"no counters were seen twice{load}")
    cpus, top = facts.activity.others_cpus, facts.activity.top
    names = ", ".join(f"{u.name} ({u.pid}) {u.cpus:.2f}" for u in top)
    text = f"{cpus:.2f} CPUs are busy with others' work"
    text += f": {names}{load}" if names else load
    if cpus < OTHERS_SHARE * len(facts.usable or facts.online or {0}):
        return _found("others", Level.OK, text)
    return _found(
        "others",
        Level.WARNING,
        text,
        "frames wait for processors that others have: latency and throughput are"
        " those of a busy machine",
        "end that work, or wait for it",
    )


def _gpu(loads: Mapping[str, float], users: Sequence[GpuUser]) -> Iterator[Finding]:
    busy = {name: load for name, load in loads.items() if load >= GPU_LOAD}
    names = ", ".join(_gpu_user(user) for user in users[:SHOWN])
    names += f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
    if busy:
        text = ", ".join(
            f"{name} {100 * load:.0f} % busy" for name, load in busy.items()
        )
        yield _found(
            "GPU",
            Level.WARNING,
            text + (f": {names}" if names else ""),
            "what runs on it waits for others, and its power is not edgepipe's alone",
            "end that work, or wait for it",
        )
    elif names:
        costs = "they may begin to work, and have memory"
        yield _found("GPU", Level.NOTE, f"others have it open: {names}", costs)
    elif loads:
        yield _found("GPU", Level.OK, "nobody works on it")


def _gpu_user(user: GpuUser) -> str:
    return f"{user.name.rpartition('/')[2] or 'a process'} ({user.pid})"


def _stolen(cpus: float) -> Finding:
    return _found(
        "stolen",
        Level.WARNING,
        f"the host gave {cpus:.2f} CPUs to others while this machine wanted them",
        "frames stand still at any place; two runs do not compare",
        "measure when the host is idle, or on a machine of one's own",
    )


def _interrupts(facts: Processors) -> Finding:
    text = "irqbalance spreads them over the processors"
    if not facts.isolated:
        return _found("interrupts", Level.OK, text)
    costs = "a camera's may come to a processor that was kept free for a stage"
    remedy = "IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance"
    return _found("interrupts", Level.NOTE, text, costs, remedy)


def _layout(facts: Processors) -> Iterator[Finding]:
    if facts.isolated:
        yield _found("isolated", Level.OK, f"processors {as_list(facts.isolated)}")
    if facts.nodes is not None and facts.nodes > 1:
        yield _found(
            "NUMA",
            Level.NOTE,
            f"{facts.nodes} groups of processors with memory of their own",
            "memory of another group is slower: times depend on where threads land",
            "numactl --cpunodebind=0 --membind=0 edgepipe bench ...",
        )
