"""Devices of the kernel that are known by what they are, not by a number.

The number of a hwmon device is another one after the next boot, or after its driver was
loaded again. So a device is known by its name, its place (the address on its bus) and
its labels, and is looked for when its files are gone.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from edgepipe.telemetry.sensors.tree import GONE, Handle, Tree

SEARCH_EVERY_NS = 5_000_000_000
"""A device that is gone is looked for no more often."""
_HWMON = "sys/class/hwmon/hwmon*"
_LABELS = ("in1", "in2", "in3", "power1", "temp1")


class Identity(NamedTuple):
    """What a device is known by."""

    name: str
    """What its driver calls it: ``ina3221``."""
    place: str
    """Where it sits: ``1-0040``, ``0000:03:00.0``, ``soctherm-oc-event``."""
    labels: tuple[str, ...] = ()
    """They tell devices apart whose place is not shown."""

    def __str__(self) -> str:
        return f"{self.name} {self.place}".rstrip()


class Device:
    """A device and its files, wherever they are at the moment.

    Args:
        tree: The machine.
        identity: For messages.
        folder: Where its files are now.
        search: Where they are later; None if nowhere.
        now_ns: The monotonic clock.
    """

    def __init__(
        self,
        tree: Tree,
        identity: Identity,
        folder: Path,
        search: Callable[[], Path | None],
        now_ns: Callable[[], int],
    ) -> None:
        self.tree = tree
        self.identity = identity
        self.folder = folder
        self.now_ns = now_ns
        self._search = search
        self._found: Path | None = folder
        self._searched_ns: int | None = None

    def files(self) -> frozenset[str]:
        """Names of its files at the start."""
        try:
            return frozenset(os.listdir(self.folder))
        except OSError:
            return frozenset()

    def text(self, file: str) -> str | None:
        """What a file of it holds at the start."""
        return self.tree.text(self.folder / file)

    def number(self, file: str) -> int | None:
        """The number in a file of it at the start."""
        return self.tree.number(self.folder / file).value

    def file(self, file: str) -> Handle:
        """A handle that stays with the device when its folder moves."""
        return _DeviceFile(self, file)

    def place_after(self, lost_ns: int | None) -> Path | None:
        """Its folder, for a file that was lost then; None: not known at present."""
        searched_ns = self._searched_ns
        if lost_ns is None:
            return self._found
        if self._found and searched_ns is not None and lost_ns <= searched_ns:
            return self._found
        now_ns = self.now_ns()
        if searched_ns is not None and now_ns - searched_ns < SEARCH_EVERY_NS:
            return None
        self._searched_ns = now_ns
        self._found = self._search()
        return self._found


class _DeviceFile:
    """A file that is never opened where another device may have moved in."""

    def __init__(self, device: Device, file: str) -> None:
        self._device = device
        self._file = file
        self._handle: Handle | None = None
        self._lost_ns: int | None = None
        self._errno = 0

    def read(self) -> bytes:
        handle = self._handle or self._open()
        try:
            return handle.read()
        except OSError as error:
            if error.errno in GONE:
                self._lost_ns = self._device.now_ns()
                self._errno = error.errno or 0
                self.close()
            raise

    def _open(self) -> Handle:
        folder = self._device.place_after(self._lost_ns)
        if folder is None:
            raise OSError(self._errno, os.strerror(self._errno))
        self._handle = self._device.tree.open(folder / self._file)
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def hwmon_devices(tree: Tree, now_ns: Callable[[], int]) -> list[Device]:
    """All hwmon devices that have a name, in an order that no number decides."""
    found = [(identity, path) for path, identity in _hwmon(tree)]
    return [
        Device(tree, identity, path, _searcher(tree, identity), now_ns)
        for identity, path in sorted(found)
    ]


def _searcher(tree: Tree, identity: Identity) -> Callable[[], Path | None]:
    def search() -> Path | None:
        return next((path for path, other in _hwmon(tree) if other == identity), None)

    return search


def _hwmon(tree: Tree) -> list[tuple[Path, Identity]]:
    return [
        (path, Identity(name, _place(path), _labels(tree, path)))
        for path in tree.glob(_HWMON)
        if (name := tree.text(path / "name"))
    ]


def _place(path: Path) -> str:
    """The name of the folder of the device that a hwmon folder belongs to."""
    parent = Path(os.path.realpath(path)).parent
    if parent.name == "hwmon":
        parent = parent.parent
    return "" if parent.name == "class" else parent.name


def _labels(tree: Tree, path: Path) -> tuple[str, ...]:
    return tuple(tree.text(path / f"{which}_label") or "" for which in _LABELS)
