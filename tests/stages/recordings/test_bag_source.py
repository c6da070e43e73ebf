"""Bags of ROS 1 and of rosbag2 as sources."""

import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Ros2Writer
from rosbags.typesys import Stores, get_typestore

from edgepipe.errors import InputError
from edgepipe.stages.sources.open import open_source

from . import messages as make
from .reading import read

SCHEMA = "sensor_msgs/msg/CompressedImage"
GREYS = [20, 25, 30, 35]


def ros1_bag(path: Path, compression: Any = None) -> Path:
    store = get_typestore(Stores.ROS1_NOETIC)
    bag = Ros1Writer(path)
    if compression is not None:
        bag.set_compression(compression)
    with bag as writer:
        connection = writer.add_connection("/camera", SCHEMA, typestore=store)
        for log_ns, data in make.stills(4, make.ros1_compressed):
            writer.write(connection, log_ns, data)
    return path


def ros2_bag(path: Path, storage: StoragePlugin) -> Path:
    store = get_typestore(Stores.ROS2_HUMBLE)
    with Ros2Writer(path, version=9, storage_plugin=storage) as writer:
        connection = writer.add_connection("/camera", SCHEMA, typestore=store)
        for log_ns, data in make.stills(4, make.ros_compressed):
            writer.write(connection, log_ns, data)
    return path


def check(uri: str) -> None:
    times, greys, events = read(open_source(uri))
    assert greys == GREYS
    assert times == [k * make.SECOND // 10 for k in range(4)]
    assert events == []


def test_a_bag_of_ros_1_is_read(tmp_path: Path) -> None:
    path = ros1_bag(tmp_path / "a.bag")
    check(str(path))
    check(f"bag:{path}?topic=/camera")


@pytest.mark.parametrize("name", ["BZ2", "LZ4"])
def test_a_compressed_bag_of_ros_1_is_read(tmp_path: Path, name: str) -> None:
    check(str(ros1_bag(tmp_path / "a.bag", Ros1Writer.CompressionFormat[name])))


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_a_folder_of_rosbag2_is_read(tmp_path: Path, storage: StoragePlugin) -> None:
    path = ros2_bag(tmp_path / "bag", storage)
    check(str(path))
    check(f"bag:{path}")


@pytest.mark.parametrize("kind", ["mcap", "db3"])
def test_a_file_of_rosbag2_is_read_by_itself(
    tmp_path: Path, kind: Literal["mcap", "db3"]
) -> None:
    storage = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}[kind]
    (path,) = ros2_bag(tmp_path / "bag", storage).glob(f"*.{kind}")
    check(str(path))


@pytest.mark.parametrize("content", [b"", b"#ROSBAG V2.0\n", b"no bag at all" * 9])
def test_what_is_no_bag_is_an_error_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.bag"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.bag: not a bag that can be read"):
        open_source(str(path))


def test_a_bag_that_is_cut_off_is_an_error_or_a_part(tmp_path: Path) -> None:
    path = ros1_bag(tmp_path / "a.bag")
    whole = path.read_bytes()
    for end in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"a\.bag: "):
            open_source(str(path))


@pytest.mark.parametrize(("name", "module"), [("a.bag", "rosbags"), ("a.mcap", "mcap")])
def test_a_missing_library_is_one_line_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"anything")
    for known in list(sys.modules):
        if known.split(".")[0] == module:
            monkeypatch.setitem(sys.modules, known, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'edgepipe\[robot\]'"):
        open_source(str(path))
