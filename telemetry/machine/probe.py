"""What the sensors of a machine said when it was examined."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.totals import Total


@dataclass(frozen=True, slots=True)
class Measured:
    """What the sensors said, in one look or two."""

    readings: Sequence[Reading] = ()
    """Of the last look."""
    before: Sequence[Reading] = ()
    """Of the first look, where there were two."""
    totals: Sequence[Total] = ()
    """What the whole machine takes in, by which rule."""
    no_total: str = ""
    """Why there is none; empty if there is one."""
    hung: Sequence[str] = ()
    """Sensors that did not answer."""

    def of(self, *kinds: Kind) -> list[Reading]:
        """The last readings of some kinds, in the order of the sensors."""
        return [each for each in self.readings if each.channel.kind in kinds]
