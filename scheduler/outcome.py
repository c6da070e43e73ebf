"""What a simulation leaves behind: the records of its frames, and what was decided."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from edgepipe.scheduler.events import Admitted, Alarm, Leave, Refused, RungChanged

TRACK_ONLY = "track_only"
"""The variant of frames that left the network out."""
MOST_KEPT = 100_000
"""Moves, alarms and departures that an outcome keeps of each; more are only counted."""

T = TypeVar("T")


class SimulatedSpan(NamedTuple):
    """One step's work on one frame: the fields of ``telemetry.records.Span``."""

    stage: str
    ready_ns: int
    start_ns: int
    end_ns: int
    resource: str
    worker: int


class SimulatedFrame(NamedTuple):
    """What became of one frame: the fields of ``telemetry.records.FrameRecord``.

    Capture and deadline are the true ones, whatever the stamps said. ``variant`` is the
    rung of the last job, or :data:`TRACK_ONLY`; ``batch`` the largest batch that the
    frame was part of.
    """

    stream: str
    sequence: int
    capture_ns: int
    pts_ns: int | None
    deadline_ns: int
    fate: str
    reason: str
    stage: str
    done_ns: int
    warm_up: bool
    variant: str
    batch: int
    objects: int
    truncated: int
    spans: tuple[SimulatedSpan, ...]
    short_ns: int
    passed_over: int
    superseded_by: int | None


@dataclass(slots=True)
class Outcome:
    """What one simulation left behind. Moments are nanoseconds of virtual time."""

    captured: int = 0
    ended_ns: int = 0
    """When the last frame left."""
    events: int = 0
    """Events that the scheduler was told of."""
    records: list[SimulatedFrame] = field(default_factory=list[SimulatedFrame])
    """In the order in which the frames left; empty if somebody else took them."""
    moves: list[tuple[int, RungChanged]] = field(
        default_factory=list[tuple[int, RungChanged]]
    )
    alarms: list[tuple[int, Alarm]] = field(default_factory=list[tuple[int, Alarm]])
    departures: list[tuple[int, Leave]] = field(default_factory=list[tuple[int, Leave]])
    """Frames that were given up, with the evidence."""
    answers: list[tuple[int, Admitted | Refused]] = field(
        default_factory=list[tuple[int, Admitted | Refused]]
    )
    """To the streams that came while it ran."""
    redated: int = 0
    """Frames whose stamp was put right."""
    unkept: int = 0
    """Moves, alarms and departures beyond those that are kept."""
    busy_ns: dict[str, int] = field(default_factory=dict[str, int])
    """By resource, the time that its slots worked, added up."""
    digest: str = ""
    """sha256 over every event and the actions that followed, if asked for."""

    def keep(self, kept: list[T], item: T) -> None:
        """Add to one of the lists, up to its bound."""
        if len(kept) < MOST_KEPT:
            kept.append(item)
        else:
            self.unkept += 1
