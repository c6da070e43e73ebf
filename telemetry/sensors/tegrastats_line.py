"""One line of tegrastats, of every release from R28 to R39, taken apart.

A line is a sequence of items in no fixed order: memory, processor cores, engines with
load and clock, temperatures, rails. What an item is shows in its form and never in its
name alone: on an AGX Xavier ``GPU`` is both a zone and a rail.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

GATED_C = -256.0
"""Printed for a zone whose part is switched off (R34, R35)."""
_BYTES = {"kB": 1 << 10, "MB": 1 << 20}


class Memory(NamedTuple):
    """RAM, SWAP or IRAM."""

    name: str
    used_bytes: int
    total_bytes: int
    blocks: int | None
    """Of RAM and IRAM: how many free blocks have the largest size there is."""
    block_bytes: int | None
    cached_bytes: int | None
    """Of SWAP."""


class Core(NamedTuple):
    """A processor core; one that is off has neither load nor clock."""

    load: float | None
    """0..1."""
    hz: int | None
    """None if it is off, or if only root is told."""


class Engine(NamedTuple):
    """A part with a clock: the GPU (GR3D), the memory bus (EMC), codecs."""

    name: str
    """Without ``_FREQ``, which not all releases append."""
    is_off: bool
    load: float | None
    """0..1; None: not told."""
    hz: tuple[int, ...]
    """One clock for each of its clusters; empty: not told. 0 is switched off."""


class Temperature(NamedTuple):
    """A thermal zone."""

    zone: str
    celsius: float | None
    """None: its part is switched off."""
    highest_c: float | None
    """Since tegrastats started (R39)."""


class Rail(NamedTuple):
    """A supply rail's power now.

    The mean that follows it in the line counts from the start of that process and is
    left out: it belongs to no window of ours.
    """

    name: str
    """``NC``, not connected, may come more than once."""
    watts: float


@dataclass(slots=True)
class Line:
    """What one line says."""

    date: str = ""
    memory: list[Memory] = field(default_factory=list[Memory])
    cores: list[Core] = field(default_factory=list[Core])
    engines: list[Engine] = field(default_factory=list[Engine])
    temperatures: list[Temperature] = field(default_factory=list[Temperature])
    rails: list[Rail] = field(default_factory=list[Rail])
    mts: tuple[float, float] | None = None
    """Load of the Denver cores' translation, foreground and background, 0..1."""
    unknown: list[str] = field(default_factory=list[str])
    """Words of no known form."""


_NUMBER = r"-?\d+(?:\.\d+)?"
_END = r"(?=\s|$)"


def _item(form: str) -> re.Pattern[str]:
    return re.compile(form.replace(" ", r"\s").replace("<n>", _NUMBER) + _END)


def _date(found: re.Match[str], line: Line) -> None:
    line.date = found[0]


def _memory(found: re.Match[str], line: Line) -> None:
    unit = _BYTES[found["unit"]]
    line.memory.append(
        Memory(
            found["name"],
            int(found["used"]) * unit,
            int(found["total"]) * unit,
            int(found["blocks"] or 1) if found["block"] else None,
            _sized(found, "block"),
            _sized(found, "cached"),
        )
    )


def _sized(found: re.Match[str], what: str) -> int | None:
    return int(found[what]) * _BYTES[found[f"{what}_unit"]] if found[what] else None


def _cores(found: re.Match[str], line: Line) -> None:
    for word in found["cores"].split(","):
        core = _CORE.fullmatch(word.strip())
        if core is None:
            line.unknown.append(word)
        if core is None or core["load"] is None:
            line.cores.append(Core(None, None))  # the others keep their numbers
        else:
            mhz = core["mhz"] or found["mhz"]  # R28 prints one clock for all
            line.cores.append(Core(_share(core["load"]), _hz(mhz) if mhz else None))


def _mts(found: re.Match[str], line: Line) -> None:
    line.mts = float(found[1]) / 100, float(found[2]) / 100


def _rail(found: re.Match[str], line: Line) -> None:
    line.rails.append(Rail(found["name"], float(found["now"]) / 1000))


def _temperature(found: re.Match[str], line: Line) -> None:
    now_c = float(found["now"])
    highest_c = float(found["highest"]) if found["highest"] else None
    line.temperatures.append(
        Temperature(found["zone"], None if now_c <= GATED_C else now_c, highest_c)
    )


def _engine(found: re.Match[str], line: Line) -> None:
    clocks = found["clocks"] or found["clock"] or found["bare"]
    line.engines.append(
        Engine(
            found["name"].removesuffix("_FREQ"),
            found["off"] is not None,
            _share(found["load"]) if found["load"] else None,
            tuple(_hz(each) for each in clocks.split(",")) if clocks else (),
        )
    )


def _share(percent: str) -> float:
    return float(percent) / 100


def _hz(mhz: str) -> int:
    return int(mhz) * 1_000_000


_CORE = re.compile(r"off|(?P<load>\d+)%(?:@(?P<mhz>\d+))?")
_ITEMS: Mapping[re.Pattern[str], Callable[[re.Match[str], Line], None]] = {
    _item(r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d"): _date,
    _item(
        r"(?P<name>RAM|SWAP|IRAM) (?P<used>\d+)/(?P<total>\d+)(?P<unit>[kM]B)\s?\("
        r"(?:lfb (?:(?P<blocks>\d+)x)?(?P<block>\d+)(?P<block_unit>[kM]B)"
        r"|cached (?P<cached>\d+)(?P<cached_unit>[kM]B))\)"
    ): _memory,
    _item(r"(?:CPU|cpu) \[(?P<cores>[^\]]*)\](?:@(?P<mhz>\d+))?"): _cores,
    _item(r"MTS fg (<n>)% bg (<n>)%"): _mts,
    _item(
        r"(?!I?RAM |SWAP )(?P<name>[A-Za-z]\w*) (?P<now><n>)(?:mW)?(?:/<n>(?:mW)?){1,2}"
    ): _rail,
    _item(r"(?P<zone>[A-Za-z][\w.-]*)@(?P<now><n>)C(?:/(?P<highest><n>)C)?"): (
        _temperature
    ),
    _item(
        r"(?P<name>[A-Z][A-Z0-9]*(?:_FREQ)?) (?:(?P<off>off)|(?P<bare>\d+)"
        r"|(?=[\d@])(?:(?P<load>\d+)%)?"
        r"(?:@(?P<clock>\d+)|@\[(?P<clocks>\d+(?:,\d+)*)\])?)"
    ): _engine,
}
"""The form of each item, what it is for, the more particular ones first."""
_WORD = re.compile(r"\S+")
_SPACE = re.compile(r"\s*")


def parse_line(text: str) -> Line:
    """Take a line apart. Never fails: what it does not know is in ``unknown``."""
    line = Line()
    at = _skip(text, 0)
    while at < len(text):
        at = _skip(text, _take(text, at, line))
    return line


def _take(text: str, at: int, line: Line) -> int:
    """One item; returns where it ends."""
    for form, keep in _ITEMS.items():
        found = form.match(text, at)
        if found is not None:
            keep(found, line)
            return found.end()
    word = _WORD.match(text, at)
    assert word is not None  # spaces were skipped
    line.unknown.append(word[0])
    return word.end()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
