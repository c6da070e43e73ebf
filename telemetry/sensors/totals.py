"""Which channels tell what the whole device takes in, and under which name."""

from dataclasses import dataclass

from edgepipe.telemetry.sensors.reading import Channel, Scope


@dataclass(frozen=True, slots=True)
class Total:
    """One figure for a whole: a single channel, or channels that are added up."""

    scope: Scope
    channels: tuple[Channel, ...]
    """All of one kind, power or energy."""
    rule: str
    """How it is known, for people: ``VDD_IN, the module's input``."""
