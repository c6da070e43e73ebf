"""What a run's ``environment.json`` says of the board it ran on."""

from typing import Any

from edgepipe.telemetry.nulls import missing, present
from edgepipe.telemetry.sensors.board import identify
from edgepipe.telemetry.sensors.tree import Tree


def board_facts(tree: Tree) -> dict[str, Any]:
    """Board, release, power mode and whether clocks were pinned, as the run began."""
    board = identify(tree)
    mode = board.power_mode
    current = mode.current if mode is not None else None
    nvidia = "no Jetson" if not board.is_jetson else "not told"
    no_mode = (mode.reason if mode is not None else "") or nvidia
    return {
        "soc": _or(board.soc, "no device tree names one"),
        "l4t": _or(board.l4t, nvidia),
        "jetpack": _or(board.jetpack, nvidia),
        "power_mode": _or(current and f"{current.id} {current.name}", no_mode),
        "clocks_pinned": _or(board.pinned, "the kernel shows no clocks"),
        "governors": _or(dict(board.governors) or None, "the kernel shows none"),
        "fan_profile": _or(board.fan_profile, nvidia),
    }


def _or(value: object, reason: str) -> dict[str, Any]:
    return missing(reason) if value is None else present(value)
