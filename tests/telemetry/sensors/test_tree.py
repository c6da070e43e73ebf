"""Reading the kernel's small files."""

import errno
import os
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.tree import Handle, Tree, number_in


class Refusing:
    """A handle whose reads fail as a driver's do."""

    def __init__(self, number: int) -> None:
        self._number = number

    def read(self) -> bytes:
        raise OSError(self._number, os.strerror(self._number))

    def close(self) -> None:
        """Nothing is open."""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_kept_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = written(tmp_path, "sys/temp", "41000\n")
    handle = Tree(tmp_path).open("/sys/temp")
    first = handle.read()
    path.write_text("42000\n")
    assert (first, handle.read()) == (b"41000\n", b"42000\n")
    handle.close()


def test_closing_twice_and_reading_after_it_do_no_harm(tmp_path: Path) -> None:
    written(tmp_path, "sys/temp", "41000\n")
    handle = Tree(tmp_path).open("sys/temp")
    handle.read()
    handle.close()
    handle.close()
    assert handle.read() == b"41000\n"
    handle.close()


def test_a_file_that_comes_late_is_found(tmp_path: Path) -> None:
    handle = Tree(tmp_path).open("sys/temp")
    with pytest.raises(FileNotFoundError):
        handle.read()
    written(tmp_path, "sys/temp", "1")
    assert handle.read() == b"1"
    handle.close()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"42\n", 42),
        (b"-392000\n", -392000),
        (b"32760 ma\n", 32760),
        (b"  7\n", 7),
        (b"5\0", 5),
    ],
)
def test_the_number_a_file_begins_with_is_read(data: bytes, value: int) -> None:
    assert number_in(data) == (value, "")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"fast\n", "not a number: 'fast'"),
        (b"12.5\n", "not a number: '12.5'"),
        (b"12abc\n", "not a number: '12abc'"),
        (b"\xff\xfe", "not a number: '��'"),
        (b"9" * 30, f"not a number: {'9' * 20!r}"),
    ],
)
def test_what_is_no_number_says_what_it_is(data: bytes, reason: str) -> None:
    assert number_in(data) == (None, reason)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EAGAIN, "gated: the part is switched off or busy (EAGAIN)"),
        (errno.EACCES, "permission denied"),
        (errno.ENODEV, "the device is gone"),
        (errno.EIO, "Input/output error (EIO)"),
    ],
)
def test_what_cannot_be_read_says_why(number: int, reason: str) -> None:
    def refuse(_: Path) -> Handle:
        return Refusing(number)

    tree = Tree(opener=refuse)
    assert tree.number("sys/temp") == (None, reason)
    assert tree.text("sys/temp") is None


def test_paths_come_in_natural_order(tmp_path: Path) -> None:
    for n in (10, 2, 1):
        written(tmp_path, f"sys/hwmon{n}/name", "x")
    found = Tree(tmp_path).glob("/sys/hwmon*")
    assert [path.name for path in found] == ["hwmon1", "hwmon2", "hwmon10"]


def test_text_loses_the_zero_of_a_device_tree(tmp_path: Path) -> None:
    written(tmp_path, "proc/model", "NVIDIA Jetson\0")
    assert Tree(tmp_path).text("proc/model") == "NVIDIA Jetson"
