"""Ten machines as their kernels show them: trees of small files, and how reads fail.

The data are in ``board_data/``: one file for each machine, folder by folder, in which a
text stands for a file with a newline at its end, ``link`` for a symbolic link, ``mode``
for who may read, and ``errno`` for a file that can be opened and not read. ``like``
names the machine that it differs from. ``expected.json`` has what must be read.
Most values were seen in public outputs of such machines; x86-rapl and what is hot in
.thermal are typical ones.
"""

import errno
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from edgepipe.telemetry.sensors.reading import Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.tree import KeptFile, Tree

_DATA = Path(__file__).parent / "board_data"
NAMES = sorted(p.stem for p in _DATA.glob("*.json") if p.stem != "expected")
EXPECTED: Mapping[str, Any] = json.loads((_DATA / "expected.json").read_text())
"""For each machine: ``rails_w``, ``total_rail``, ``total_w``, ``temps_mc``, ``oc``,
``gpu_load_permille``, ``model``, ``nvpmodel_status``."""

Files = dict[str, str | dict[str, str]]
"""Path from the root to a text, or to what else the file is; see above."""


@cache
def files_of(name: str) -> Files:
    """All files of a machine; not to be changed."""
    document = json.loads((_DATA / f"{name}.json").read_text())
    base = files_of(document["like"]) if "like" in document else {}
    changes = {
        f"{folder}/{file}": entry
        for folder, files in document["files"].items()
        for file, entry in files.items()
    }
    return {p: e for p, e in {**base, **changes}.items() if e is not None}


def renumbered(files: Files, numbers: Mapping[int, int]) -> Files:
    """The same machine after a boot in which hwmon devices came in another order."""

    def moved(text: str) -> str:
        return re.sub(
            r"(?<=/hwmon)\d+(?=/|$)",
            lambda found: str(numbers.get(int(found[0]), int(found[0]))),
            text,
        )

    return {
        moved(path): {"link": moved(entry["link"])}
        if isinstance(entry, dict) and "link" in entry
        else entry
        for path, entry in files.items()
    }


def hwmon(number: int, name: str, place: str = "", /, **files: object) -> Files:
    """One hwmon device: ``hwmon(3, "ina3221", "i2c-1/1-0040", in1_input=5000)``."""
    folder = f"sys/class/hwmon/hwmon{number}"
    link: Files = {}
    if place:
        folder = f"sys/devices/{place}/hwmon/hwmon{number}"
        link[f"sys/class/hwmon/hwmon{number}"] = {"link": f"../../../{folder}"}
    texts: Files = {f"{folder}/{file}": str(value) for file, value in files.items()}
    return {f"{folder}/name": name, **texts, **link}


class Machine:
    """Files below a folder, and what reads of them give.

    ``answers`` maps a path from the root, without links, to what a read gives instead
    of the file's text: bytes, or the number of an error.
    """

    def __init__(self, root: Path, files: Files) -> None:
        self.root = root
        self.answers: dict[str, bytes | int] = {}
        self.only_root: set[str] = set()
        """Files that a normal user may not read."""
        for path, entry in files.items():
            if isinstance(entry, dict) and "errno" in entry:
                self.answers[path] = getattr(errno, entry["errno"])
            if isinstance(entry, dict) and "mode" in entry:
                self.only_root.add(path)

    def tree(self, *, user: bool = False) -> Tree:
        """What a program sees; ``user`` is one without rights."""
        return Tree(self.root, lambda path: _File(self, path, user))

    def answer(self, path: str, with_: bytes | int) -> None:
        """Let reads of a file, named with or without links, give this from now on."""
        self.answers[self.real(self.root / path)] = with_

    def real(self, path: Path) -> str:
        """The path from the root without links."""
        return os.path.relpath(os.path.realpath(path), os.path.realpath(self.root))


class _File:
    """A kept file that fails as the machine's does, whoever runs the tests."""

    def __init__(self, machine: Machine, path: Path, user: bool) -> None:
        self._machine = machine
        self._path = path
        self._user = user
        self._file = KeptFile(path)
        self._real: str | None = None

    def read(self) -> bytes:
        real = self._real = self._real or self._machine.real(self._path)
        if self._user and real in self._machine.only_root:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        answer = self._machine.answers.get(real)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        if answer is not None:
            return answer
        try:
            return self._file.read()
        except OSError:
            self._real = None  # it may lie elsewhere the next time
            raise

    def close(self) -> None:
        self._file.close()


def write(files: Files, root: Path) -> Machine:
    """Put a machine's files below a folder."""
    for path, entry in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, dict) and "link" in entry:
            target.symlink_to(entry["link"])
        else:
            target.write_bytes(_bytes_of(entry))
    return Machine(root, files)


def _bytes_of(entry: str | dict[str, str]) -> bytes:
    text = entry if isinstance(entry, str) else entry.get("text", "")
    return (text if text.endswith("\0") else text + "\n").encode()


def read_all(sensors: Iterable[Sensor]) -> dict[str, Reading]:
    """One reading of each channel, by its key."""
    return {each.channel.key: each for sensor in sensors for each in sensor.read()}


def read_once(sensors: Iterable[Sensor]) -> dict[str, Reading]:
    """The same of sensors that are not needed afterwards."""
    found = list(sensors)
    try:
        return read_all(found)
    finally:
        for sensor in found:
            sensor.close()


class Boards:
    """The machines, each written once: nobody may change their files.

    Args:
        folder: Where to write them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> Machine:
        """A machine with answers of its own."""
        root, files = self._folder / name, files_of(name)
        return Machine(root, files) if root.exists() else write(files, root)
