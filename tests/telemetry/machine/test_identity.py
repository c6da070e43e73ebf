from dataclasses import replace

import pytest

from edgepipe.telemetry.machine.finding import Level
from edgepipe.telemetry.machine.identity import (
    Identity,
    examine_identity,
    judge_identity,
)

from .conftest import BOARD, MakeTree, OneOf

ORIN = Identity(
    model="NVIDIA Jetson Orin Nano",
    soc="tegra234",
    l4t="36.4.4",
    jetpack="6.2",
    is_jetson=True,
    processor=None,
    architecture="aarch64",
    virtual="",
    container="",
    kernel="5.15.148-tegra",
)


def test_a_supported_board_is_told_with_its_releases(one_of: OneOf) -> None:
    found = [*judge_identity(ORIN)]
    assert {each.level for each in found} == {Level.OK}
    assert one_of(found, "JetPack").found == "JetPack 6.2, L4T 36.4.4"
    assert one_of(found, "processor").found == "tegra234, aarch64"


@pytest.mark.parametrize(
    ("l4t", "jetpack", "level"),
    [
        ("32.7.4", "4", Level.WARNING),
        ("35.4.1", "5", Level.WARNING),
        ("38.4", "7.1", Level.OK),
        ("41.0", None, Level.NOTE),
        (None, None, Level.NOTE),
    ],
)
def test_old_and_unknown_releases(
    l4t: str | None, jetpack: str | None, level: Level, one_of: OneOf
) -> None:
    facts = replace(ORIN, l4t=l4t, jetpack=jetpack)
    found = one_of(judge_identity(facts), "JetPack")
    assert (found.level, found.speaks_against_a_bench) == (level, False)


def test_a_container_in_a_virtual_machine_says_both(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/self/cgroup": "0::/kubepods/pod1",
            "proc/cpuinfo": "processor: 0\nmodel name\t: Some CPU",
            "proc/sys/kernel/osrelease": "6.1",
        }
    )
    board = replace(BOARD, virtual_machine="hypervisor flag")
    facts = examine_identity(tree, board, "x86_64")
    said = {each.subject: each.found for each in judge_identity(facts)}
    assert said == {
        "product": "not known: the firmware names none",
        "processor": "Some CPU, x86_64",
        "kernel": "Linux 6.1",
        "virtual": "a virtual machine (hypervisor flag)",
        "container": "a container (control group of kubepods)",
    }
