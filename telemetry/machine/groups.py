"""What the control groups grant this process, version 1 or 2."""

from collections.abc import Iterator

from edgepipe.telemetry.sensors.tree import Tree

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes a number close to 2 to the 63rd for "no limit"."""


def quota_cores(tree: Tree) -> float | None:
    """Cores that are granted, the smallest on the way to the root; None: no limit."""
    limits = [_limit(tree, folder) for folder in _folders(tree, "cpu")]
    return min((limit for limit in limits if limit), default=None)


def memory_limit_bytes(tree: Tree) -> int | None:
    """Memory that is granted, the smallest on the way to the root; None: no limit."""
    found = [
        tree.number(f"{folder}/{name}").value
        for folder in _folders(tree, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return min((n for n in found if n and n < _NO_LIMIT_BYTES), default=None)


def realtime_runtime_us(tree: Tree) -> int | None:
    """What this process's own group grants the real-time class; None: nobody says.

    The file is there only in version 1 of a kernel that shares real time by group.
    """
    leaf = next(iter(_folders(tree, "cpu")), None)
    return tree.number(f"{leaf}/cpu.rt_runtime_us").value if leaf else None


def is_in_a_group(tree: Tree) -> bool:
    """Whether this process is in another group than the root, as far as it sees."""
    return any(path.strip("/") for _, path in _memberships(tree, "cpu"))


def _memberships(tree: Tree, wanted: str) -> Iterator[tuple[str, str]]:
    """Controller's folder and this process's group of it."""
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or "\0" in line:
            continue
        _, controllers, path = parts
        if not controllers or wanted in controllers.split(","):
            yield controllers and wanted, path


def _folders(tree: Tree, wanted: str) -> Iterator[str]:
    """Folders of this process's groups, leaf to root."""
    for controller, path in _memberships(tree, wanted):
        top = "/".join(filter(None, ("sys/fs/cgroup", controller)))
        names = [name for name in path.split("/") if name not in ("", ".", "..")]
        for depth in range(len(names), -1, -1):
            yield "/".join((top, *names[:depth]))


def _limit(tree: Tree, folder: str) -> float | None:
    text = tree.text(f"{folder}/cpu.max") or " ".join(
        tree.text(f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period")
    )
    words = text.split()
    if len(words) != 2 or not all(w.isdecimal() and len(w) < 18 for w in words):
        return None
    quota, period = map(int, words)
    return quota / period if quota and period else None
