"""Cameras that do what a test tells them, on a clock that only they move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source_events import SourceEvent
from edgepipe.stages.sources.backlog import Announced, Backlog
from edgepipe.stages.sources.camera import (
    CameraError,
    CameraFacts,
    Decoded,
    Shot,
    ShotDecoder,
)
from edgepipe.telemetry.clock import Clock

MS = 1_000_000
SECOND_NS = 1_000_000_000
WAIT_NS = 100 * MS
"""How long one reading of a scripted camera waits at most."""


class FlatDecoder:
    """Pictures of one level: the payload."""

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        assert isinstance(payload, int)
        plane = np.full((2, 2), payload % 256, np.uint8)
        return [Decoded(tag, Picture(PixelFormat.GRAY, (plane,), 2, 2))]

    def forget(self) -> None:
        pass


@dataclass
class ScriptedConnection:
    """Sends frames at a rate, except when the script says otherwise."""

    wait_for: Callable[[int], Shot | None]
    period_ns: int
    decoder: ShotDecoder = field(default_factory=FlatDecoder)
    closed: int = 0

    @property
    def facts(self) -> CameraFacts:
        return CameraFacts(2, 2, 1e9 / self.period_ns, "raw")

    def read(self) -> Shot | None:
        return self.wait_for(WAIT_NS)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


@dataclass
class Collector:
    """Keeps all that a reader brings, with the time."""

    clock: Clock
    backlog: Backlog = field(default_factory=Backlog)
    events: list[tuple[int, SourceEvent]] = field(
        default_factory=list[tuple[int, SourceEvent]]
    )
    frames: list[tuple[int, Announced]] = field(
        default_factory=list[tuple[int, Announced]]
    )
    facts: list[CameraFacts] = field(default_factory=list[CameraFacts])

    def opened(self, facts: CameraFacts) -> None:
        self.facts.append(facts)

    def keep(self, shot: Shot, decoder: ShotDecoder) -> Sequence[Announced]:
        return self.backlog.push(shot, decoder)

    def announce(self, frames: Sequence[Announced]) -> None:
        self.frames += [(self.clock.now_ns(), frame) for frame in frames]

    def tell(self, event: SourceEvent) -> None:
        self.events.append((self.clock.now_ns(), event))

    def story(self) -> list[tuple[float, str]]:
        """What happened, with seconds to one place."""
        return [(round(at / 1e9, 1), event.kind.value) for at, event in self.events]


@dataclass
class Silence:
    """A camera that cannot be opened."""

    why: str = "connection refused"
    tries: int = 0

    def connect(self) -> ScriptedConnection:
        self.tries += 1
        raise CameraError(self.why)

    def is_there(self) -> bool | None:
        return None

    def interrupt(self) -> None:
        pass
