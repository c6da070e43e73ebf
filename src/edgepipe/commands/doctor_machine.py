"""``edgepipe doctor`` without a source: is this machine fit to run, and to measure?"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from edgepipe.commands.output import print_json

if TYPE_CHECKING:
    from edgepipe.telemetry.machine.examine import Machine
    from edgepipe.telemetry.machine.finding import Finding
    from edgepipe.telemetry.machine.verdict import Fitness

SCHEMA = "edgepipe.machine/1"


def examine_and_tell(root: Path, *, as_json: bool, strict: bool) -> int:
    """Examine the machine whose files lie below ``root``; return the exit code.

    1 when a run would fail here; with ``strict`` also when a bench could not be
    trusted. Nothing is changed.
    """
    from edgepipe.configs.telemetry_schema import TelemetryConfig
    from edgepipe.telemetry.machine.examine import findings
    from edgepipe.telemetry.machine.here import examine_here
    from edgepipe.telemetry.machine.text import render_machine
    from edgepipe.telemetry.machine.verdict import fitness

    machine = examine_here(Path(TelemetryConfig().dir), root)
    found = findings(machine)
    fit = fitness(found)
    if as_json:
        if not print_json(document(machine, found, fit)):
            return 1
    else:
        text = render_machine(found, fit)
        sys.stdout.write(painted(text) if _has_colours() else text)
        sys.stdout.flush()
    return exit_code(found, fit, strict=strict)


_BOLD, _RED, _YELLOW, _GREEN = "1", "31", "33", "32"
_COLOURS = (
    (r"^[a-z-]+$", _BOLD),
    (r"^! \S.{15}", _YELLOW),
    (r"^X \S.{15}", _RED),
    (r"^NOT fit", _RED),
    (r"^fit", _GREEN),
)
"""What is painted how, by the codes of terminals."""


def painted(text: str) -> str:
    """The text with the marks of what matters in colours."""
    for pattern, code in _COLOURS:
        text = re.sub(pattern, rf"\033[{code}m\g<0>\033[0m", text, flags=re.M)
    return text


def _has_colours() -> bool:
    """Whether a person looks, at a terminal that can, and wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def exit_code(found: "Sequence[Finding]", fit: "Fitness", *, strict: bool) -> int:
    """0, or 1 when the machine is not what it must be."""
    from edgepipe.telemetry.machine.finding import Level

    broken = any(each.level is Level.PROBLEM for each in found)
    return int(broken or (strict and not fit.is_fit))


def document(
    machine: "Machine", found: "Sequence[Finding]", fit: "Fitness"
) -> dict[str, Any]:
    """Everything as JSON has it: the facts, what they mean, and the verdict."""
    return {
        "schema": SCHEMA,
        "machine": plain(machine),
        "findings": [plain(each) for each in found],
        "bench": {
            "fit": fit.is_fit,
            "reasons": [*fit.reasons],
            "not_known": [*fit.unknown],
        },
    }


def plain(value: Any) -> Any:
    """Records as mappings, sets as sorted lists, enumerations as their words."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        names = (each.name for each in dataclasses.fields(value))
        return {name: plain(getattr(value, name)) for name in names}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        whole = cast("Mapping[str, Any]", value)
        return {key: plain(each) for key, each in whole.items()}
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[int]", value))
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in cast("Sequence[Any]", value)]
    return value
