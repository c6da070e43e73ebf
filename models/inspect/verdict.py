"""What is made of a network's outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reading:
    """A head that reads the outputs, and what makes one think so."""

    head: str
    outputs: tuple[str, ...]
    """In the head's order."""
    classes: int | None
    """How many there are, a background with them; None if the outputs do not tell."""
    because: str
    """What in the file says so; for a mere possibility, what would have to be true."""
    certain: bool
    """Whether the graph, a run or metadata say so, and not only the shapes."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Keys of the card's head section that follow."""
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    """Such keys that do not follow, each with what has to be found out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that could be."""

    readings: tuple[Reading, ...] = ()
    """The one if it is certain; else those that are possible; or none."""
    remarks: tuple[str, ...] = ()
    """What stands in the way of running it, or should be known."""

    @property
    def certain(self) -> Reading | None:
        """The head, if it is known."""
        first = self.readings[0] if len(self.readings) == 1 else None
        return first if first is not None and first.certain else None
