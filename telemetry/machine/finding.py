"""One thing that was found out about a machine, and what it means for a run."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing when figures are read."""
    WARNING = "warning"
    """Figures of a run suffer from it, or lack something."""
    PROBLEM = "problem"
    """A run would fail, or be worth nothing."""

    @property
    def is_bad(self) -> bool:
        """Whether something should be done about it."""
        return self in (Level.WARNING, Level.PROBLEM)


class Area(Enum):
    """What a finding is about, in the order in which they are shown."""

    MACHINE = "machine"
    CLOCKS = "clocks"
    HEAT = "heat"
    POWER = "power"
    PROCESSORS = "processors"
    MEMORY = "memory"
    TIME = "time"
    STORAGE = "storage"
    REALTIME = "real-time"
    SOFTWARE = "software"


BENCH_AREAS = frozenset(
    {
        Area.CLOCKS,
        Area.HEAT,
        Area.PROCESSORS,
        Area.MEMORY,
        Area.TIME,
        Area.STORAGE,
    }
)
"""Areas whose warnings speak against any bench: they move latencies and throughput.

The others take something away that the summary itself says is missing (power), or
that the run reports as refused (real-time class, packages).
"""


class Finding(NamedTuple):
    """What is so, what that costs, and what can be done."""

    area: Area
    subject: str
    """A word or two: ``governor``, ``swap``."""
    level: Level
    found: str
    """What was read, with its value; begins with ``not known`` if it could not be."""
    costs: str = ""
    """What it does to a run; empty for what does no harm."""
    remedy: str = ""
    """A command or a setting; empty where there is none."""
    known: bool = True
    """Whether it could be found out at all."""

    @property
    def speaks_against_a_bench(self) -> bool:
        """Whether figures measured here and now are not to be trusted for it."""
        return self.level is Level.PROBLEM or (
            self.level is Level.WARNING and self.area in BENCH_AREAS
        )


def not_known(
    area: Area, subject: str, why: str, costs: str = "", remedy: str = ""
) -> Finding:
    """What could not be found out: no reproach, and no guess."""
    found = f"not known: {why}"
    return Finding(area, subject, Level.NOTE, found, costs, remedy, known=False)
