"""What the system lets this process ask for: the real-time class and its limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.files import kernel_option, word_of
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.groups import is_in_a_group, realtime_runtime_us
from edgepipe.telemetry.machine.memory import size
from edgepipe.telemetry.machine.storage import limit
from edgepipe.telemetry.sensors.tree import Tree

_IPC_LOCK, _SYS_NICE = 14, 23
"""Bits of capabilities (linux/capability.h)."""
_USUAL_SLACK_NS = 50_000

_found = partial(Finding, Area.REALTIME)
_unknown = partial(not_known, Area.REALTIME)


@dataclass(frozen=True, slots=True)
class Realtime:
    """None where nobody tells."""

    may_raise: bool | None
    """Whether CAP_SYS_NICE is held."""
    may_lock: bool | None
    """Whether CAP_IPC_LOCK is held."""
    priority_limit: int | None
    """RLIMIT_RTPRIO: the highest priority of SCHED_FIFO without that capability."""
    nice_limit: int | None
    """RLIMIT_NICE: 20 minus the lowest nice value without that capability."""
    locked_limit_bytes: int | None
    """RLIMIT_MEMLOCK; None: no limit, or not known."""
    runtime_us: int | None
    """What the real-time class may take of each period; -1: all of it."""
    period_us: int | None
    shared_by_group: bool | None
    """Whether the kernel gives real time to control groups one by one."""
    group_runtime_us: int | None
    """What this process's group got, where that is shown."""
    in_a_group: bool
    preemption: str | None
    """How the kernel interrupts itself: ``PREEMPT_RT``, ``PREEMPT_DYNAMIC``."""
    slack_ns: int | None
    """How late the timers of ordinary threads may be, to save wake-ups."""


def examine_realtime(tree: Tree) -> Realtime:
    """Read what there is."""
    mask = _mask(word_of(tree.text("proc/self/status"), "CapEff"))
    shared = kernel_option(tree, "RT_GROUP_SCHED")
    own = realtime_runtime_us(tree)
    return Realtime(
        may_raise=None if mask is None else bool(mask >> _SYS_NICE & 1),
        may_lock=None if mask is None else bool(mask >> _IPC_LOCK & 1),
        priority_limit=limit(tree, "Max realtime priority"),
        nice_limit=limit(tree, "Max nice priority"),
        locked_limit_bytes=limit(tree, "Max locked memory"),
        runtime_us=tree.number("proc/sys/kernel/sched_rt_runtime_us").value,
        period_us=tree.number("proc/sys/kernel/sched_rt_period_us").value,
        shared_by_group=own is not None or (None if shared is None else shared == "y"),
        group_runtime_us=own,
        in_a_group=is_in_a_group(tree),
        preemption=_preemption(tree),
        slack_ns=tree.number("proc/self/timerslack_ns").value,
    )


def _mask(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _preemption(tree: Tree) -> str | None:
    if tree.number("sys/kernel/realtime").value == 1:
        return "PREEMPT_RT"
    words = (tree.text("proc/sys/kernel/version") or "").split()
    kinds = [word for word in words if word.startswith("PREEMPT")]
    return next(iter(kinds), "no PREEMPT" if words else None)


def judge_realtime(facts: Realtime) -> Iterator[Finding]:
    """What that means for a run."""
    yield _class(facts)
    if facts.runtime_us is not None and facts.period_us:
        yield from _throttling(facts.runtime_us, facts.period_us)
    yield from _groups(facts)
    yield _kernel(facts.preemption)
    if facts.may_lock is False and facts.locked_limit_bytes is not None:
        yield _found(
            "locked memory",
            Level.OK,
            f"at most {size(facts.locked_limit_bytes)} (edgepipe locks none)",
        )
    if facts.slack_ns is not None and facts.slack_ns > _USUAL_SLACK_NS:
        yield _found(
            "timer slack",
            Level.NOTE,
            f"{facts.slack_ns / 1e3:g} us",
            "ordinary threads may wake up so late",
        )


def _class(facts: Realtime) -> Finding:
    if facts.may_raise:
        return _found("permission", Level.OK, "SCHED_FIFO is granted (CAP_SYS_NICE)")
    if facts.priority_limit:
        text = f"SCHED_FIFO up to {facts.priority_limit} (RLIMIT_RTPRIO)"
        return _found("permission", Level.OK, text)
    if facts.may_raise is None or facts.priority_limit is None:
        return _unknown("permission", "no limits or capabilities could be read")
    return _found(
        "permission",
        Level.NOTE,
        "SCHED_FIFO is refused: RLIMIT_RTPRIO is 0 and CAP_SYS_NICE is not held",
        "run.placement.cpu.realtime has no effect: other programs may delay frames",
        "LimitRTPRIO=20 of a service, or '@video - rtprio 20' in"
        " /etc/security/limits.conf",
    )


def _throttling(runtime_us: int, period_us: int) -> Iterator[Finding]:
    if runtime_us < 0:
        costs = "a real-time thread that never sleeps takes its processor for good"
        yield _found("throttling", Level.NOTE, "of the real-time class: off", costs)
    elif runtime_us < period_us:
        missing_ms = (period_us - runtime_us) / 1000
        yield _found(
            "throttling",
            Level.OK,
            f"real-time threads that never sleep lose {missing_ms:g} ms of each"
            f" {period_us / 1000:g} ms",
        )


def _groups(facts: Realtime) -> Iterator[Finding]:
    if not facts.shared_by_group or facts.group_runtime_us:
        return
    if facts.group_runtime_us is None and not facts.in_a_group:
        return
    yield _found(
        "groups",
        Level.WARNING,
        "the kernel shares real time by control group (RT_GROUP_SCHED)"
        + ("; this one has none" if facts.group_runtime_us == 0 else ""),
        "SCHED_FIFO is refused in it even with CAP_SYS_NICE",
        "start edgepipe in the root group, or give the group cpu.rt_runtime_us",
    )


def _kernel(preemption: str | None) -> Finding:
    if preemption is None:
        return _unknown("kernel", "nobody says how it interrupts itself")
    if preemption.startswith("PREEMPT_RT"):
        return _found("kernel", Level.OK, "PREEMPT_RT")
    return _found(
        "kernel",
        Level.OK,
        f"{preemption}, not PREEMPT_RT: its own work may delay any thread",
    )
