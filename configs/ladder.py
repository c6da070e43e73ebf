"""What the rungs of a configured ladder are: each adds to the one above it.

The order of the list is the order in which quality is given up. Because a rung keeps
what the rungs above it gave up, each asks for less than the last whatever the entries
are, which is what the scheduler counts on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

FULL = "full"
"""Name of the rung above all entries, and of the variant that it runs."""


@dataclass(frozen=True, slots=True)
class RungPlan:
    """One rung, with all that it says and all that it keeps."""

    name: str
    """What is given up on it, in words; unique on its ladder."""
    stride: int
    variant: str
    """The network that looks at the frames; ``full`` is the model itself."""
    track_only: int
    """One frame in so many is looked at by the network."""
    batch_max: int
    value: float
    """What the result of a frame is worth that the network has looked at."""
    track_only_value: float
    """The same of a frame that it has not looked at."""

    @property
    def work(self) -> tuple[object, ...]:
        """What decides how much work it is."""
        return self.stride, self.variant, self.track_only, self.batch_max


def rungs(entries: Sequence[Mapping[str, object]], batch_max: int) -> list[RungPlan]:
    """Full quality and, below it, a rung for each entry of ``scheduler.ladder``.

    Args:
        entries: What each entry says, by key; what it leaves out or gives as None stays
            as it is on the rung above.
        batch_max: Most frames in a batch at full quality.
    """
    return list(_rungs(entries, batch_max))


def _rungs(
    entries: Sequence[Mapping[str, object]], batch_max: int
) -> Iterator[RungPlan]:
    rung = RungPlan(FULL, 1, FULL, 1, batch_max, 1.0, 1.0)
    yield rung
    for entry in entries:
        said = {key: value for key, value in entry.items() if value is not None}
        if "value" in said:
            # What is said of all results holds for those without the network, too.
            said.setdefault("track_only_value", said["value"])
        rung = replace(rung, **said)  # type: ignore[arg-type]
        rung = replace(rung, name=_name(rung, batch_max))
        yield rung


def _name(rung: RungPlan, batch_max: int) -> str:
    parts = [
        f"stride {rung.stride}" if rung.stride > 1 else "",
        rung.variant if rung.variant != FULL else "",
        f"track-only {rung.track_only}" if rung.track_only > 1 else "",
        f"batch {rung.batch_max}" if rung.batch_max != batch_max else "",
    ]
    return " + ".join(part for part in parts if part) or FULL
