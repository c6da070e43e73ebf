import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.machine.files import (
    as_list,
    kernel_option,
    processors_in,
    value_of,
    whole,
    word_of,
)
from edgepipe.telemetry.machine.groups import (
    is_in_a_group,
    memory_limit_bytes,
    quota_cores,
    realtime_runtime_us,
)
from edgepipe.telemetry.sensors.tree import Tree

from .conftest import MakeTree

BUILT = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_RT_GROUP_SCHED=y\n"


@given(st.frozensets(st.integers(0, 300)))
def test_a_list_of_processors_is_read_as_it_was_written(
    numbers: frozenset[int],
) -> None:
    assert processors_in(as_list(numbers)) == numbers


@pytest.mark.parametrize(
    "text", [None, "x", "0-", "1-99999", "-3", "0 1", "0-99999999"]
)
def test_what_is_no_list_of_processors_is_none(text: str | None) -> None:
    assert processors_in(text) is None


def test_words_and_values_are_found_by_their_key() -> None:
    text = "MemTotal:   12 kB\nmodel name\t: Some CPU\nEmpty:\nX:9\n"
    assert value_of(text, "MemTotal") == 12
    assert word_of(text, "model name") == "Some CPU"
    assert word_of(text, "Empty") is None
    assert value_of(text, "model name") is value_of(None, "X") is None


def test_the_kernel_s_configuration_is_read_packed_or_plain(
    make_tree: MakeTree, tmp_path: Path
) -> None:
    tree = make_tree({"proc/sys/kernel/osrelease": "6.1-x", "boot/config-6.1-x": BUILT})
    assert kernel_option(tree, "RT_GROUP_SCHED") == "y"
    assert kernel_option(tree, "B") == "n"
    packed = tmp_path / "proc/config.gz"
    packed.write_bytes(gzip.compress(b"CONFIG_B=m\n"))
    assert kernel_option(tree, "B") == "m"
    for damaged in (packed.read_bytes()[:12], b"\x1f\x8b\x08\x00" + b"\xff" * 40, b""):
        packed.write_bytes(damaged)
        assert kernel_option(tree, "RT_GROUP_SCHED") == "y"
    assert kernel_option(Tree(tmp_path / "proc"), "B") is None


def test_a_long_file_is_read_to_its_end(make_tree: MakeTree) -> None:
    tree = make_tree({"etc/long": "x" * 9000})
    assert len(whole(tree, "etc/long")) == 9001
    assert whole(tree, "etc/none") == ""


def test_the_tightest_group_on_the_way_to_the_root_counts(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/b/memory.max": "max",
            "sys/fs/cgroup/a/memory.max": "2000000",
            "sys/fs/cgroup/a/b/cpu.max": "50000 100000",
            "sys/fs/cgroup/a/cpu.max": "300000 100000",
        }
    )
    assert quota_cores(tree) == 0.5
    assert memory_limit_bytes(tree) == 2_000_000
    assert is_in_a_group(tree)
    assert realtime_runtime_us(tree) is None


def test_groups_of_version_1_have_a_folder_for_each_controller(
    make_tree: MakeTree,
) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/m\n0::/",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "20000",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu/box/cpu.rt_runtime_us": "0",
            "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "9223372036854771712",
        }
    )
    assert quota_cores(tree) == 0.2
    assert memory_limit_bytes(tree) is None, "that number stands for no limit"
    assert realtime_runtime_us(tree) == 0


@pytest.mark.parametrize("limit", ["-1 100000", "max 100000", "5", "x y", "0 0", "5 0"])
def test_no_limit_and_garbage_are_no_quota(limit: str, make_tree: MakeTree) -> None:
    tree = make_tree({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": limit})
    assert quota_cores(tree) is None
