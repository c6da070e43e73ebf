from pathlib import Path

import pytest

from edgepipe.telemetry.board_facts import board_facts
from edgepipe.telemetry.nulls import nulls
from edgepipe.telemetry.sensors.tree import Tree

from .boards import NAMES, Boards


def test_board_release_and_power_mode_are_in_the_environment(boards: Boards) -> None:
    facts = board_facts(boards("orin-nano-super-jp6").tree())
    assert facts["soc"]["value"] == "tegra234"
    assert facts["jetpack"]["value"] == "6.2"
    assert facts["power_mode"]["value"] == "2 MAXN_SUPER"
    assert facts["clocks_pinned"]["value"] is False
    assert facts["governors"]["value"]["cpu0"] == "schedutil"


def test_pinned_clocks_are_told(boards: Boards) -> None:
    facts = board_facts(boards("orin-nano-super-jp6.oc3").tree())
    assert facts["clocks_pinned"]["value"] is True


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_known_says_why(boards: Boards, name: str) -> None:
    assert all(null.reason for null in nulls(board_facts(boards(name).tree())))


def test_an_empty_machine_has_a_reason_for_everything(tmp_path: Path) -> None:
    facts = board_facts(Tree(tmp_path))
    assert all(each["value"] is None and each["reason"] for each in facts.values())
