"""Where runs are written, and how many files may be open."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgepipe.telemetry.machine.files import whole
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.memory import size
from edgepipe.telemetry.sensors.tree import Tree, why

LOW_BYTES = 1 << 30
"""A frame log grows by 256 MiB in seven hours of one stream at 30 fps."""
FULL_BYTES = 50 << 20
FEW_FILES = 256
NETWORKED = re.compile(r"nfs|cifs|smb|9p|ceph|glusterfs|lustre|afs|fuse\.sshfs")
IN_MEMORY = ("tmpfs", "ramfs")

_found = partial(Finding, Area.STORAGE)


@dataclass(frozen=True, slots=True)
class Storage:
    """The file system that run folders go to; None where nobody tells."""

    folder: str | None
    """Where runs go; None: nobody asked."""
    system: str | None
    """``ext4``, ``nfs4``, ``tmpfs``."""
    free_bytes: int | None
    writable: bool | None
    """Whether this user could make a run folder there."""
    reason: str
    """Why ``free_bytes`` is None."""
    open_files: int | None
    """How many this process may have open; None: any number, or not known."""


def examine_storage(tree: Tree, runs: Path | None) -> Storage:
    """Ask about the folder for runs, or the nearest one above it that exists."""
    files = limit(tree, "Max open files")
    if runs is None:
        return Storage(None, None, None, None, "nobody asked", files)
    try:
        place = runs.absolute()
        existing = _nearest(place)
        about = os.statvfs(existing)
    except OSError as error:  # the current folder may be gone, for one
        return Storage(str(runs), None, None, None, why(error), files)
    free = about.f_bavail * about.f_frsize
    writable = os.access(existing, os.W_OK | os.X_OK) and existing.is_dir()
    return Storage(str(place), _system(tree, existing), free, writable, "", files)


def _nearest(place: Path) -> Path:
    """The place, or what is nearest above it, as far as this user can see."""
    return next(
        (path for path in (place, *place.parents) if os.path.exists(path)),
        Path("/"),
    )


def _system(tree: Tree, place: Path) -> str | None:
    """Kind of the file system that holds a place: of the longest mount above it."""
    best, kind = "", None
    for line in whole(tree, "proc/self/mountinfo").splitlines():
        left, dash, right = line.partition(" - ")
        words = left.split()
        if not dash or len(words) < 5:
            continue
        at = words[4].replace("\\040", " ")
        inside = at == "/" or place == Path(at) or Path(at) in place.parents
        # Of two at one place the later one is on top.
        if inside and len(at) >= len(best):
            best, kind = at, right.split(" ", 1)[0]
    return kind


def limit(tree: Tree, name: str) -> int | None:
    """A limit of this process that is in force; None: no limit, or not known."""
    text = tree.text("proc/self/limits") or ""
    found = re.search(rf"^{re.escape(name)}\s+(\d{{1,19}})\s", text, re.M)
    return int(found[1]) if found else None


def judge_storage(facts: Storage) -> Iterator[Finding]:
    """What the disk means for a run."""
    if facts.folder is not None:
        yield _room(facts, facts.folder)
    if facts.open_files is not None and facts.open_files < FEW_FILES:
        yield _found(
            "open files",
            Level.WARNING,
            f"at most {facts.open_files}",
            "with several streams files cannot be opened any more",
            "ulimit -n 1024, or LimitNOFILE=1024 of a service",
        )


def _room(facts: Storage, folder: str) -> Finding:
    if facts.free_bytes is None:
        return not_known(Area.STORAGE, "run folders", f"{folder}: {facts.reason}")
    kind = facts.system or "file system not known"
    text = f"{folder} ({kind}), {size(facts.free_bytes)} free"
    if not facts.writable:
        return _found(
            "run folders",
            Level.WARNING,
            f"{folder} ({kind}) cannot be written to",
            "runs go to a folder for temporary files, which the next boot may empty",
            "set telemetry.dir to a folder of this user",
        )
    if facts.free_bytes < LOW_BYTES:
        level = Level.PROBLEM if facts.free_bytes < FULL_BYTES else Level.WARNING
        costs = "when it is full, records of frames are lost; the run goes on"
        remedy = "delete old run folders, or set telemetry.dir"
        return _found("run folders", level, text, costs, remedy)
    if facts.system and NETWORKED.match(facts.system):
        costs = "records are synced each second over the network and may be lost"
        return _found("run folders", Level.NOTE, text, costs, "telemetry.dir: local")
    if facts.system in IN_MEMORY:
        costs = "runs are gone at the next boot, and take memory until then"
        return _found("run folders", Level.NOTE, text, costs, "set telemetry.dir")
    return _found("run folders", Level.OK, text)
