"""What a finished run tells about itself, beside its frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from edgepipe.telemetry.device_facts import DeviceFacts
from edgepipe.telemetry.records import RecorderFacts, SourceRecord


@dataclass(frozen=True, slots=True)
class DepthFacts:
    """How many frames of one stream there were at once, warm-up included."""

    queue_capacity: int
    queue_peak: int
    in_flight_max: int
    in_flight_peak: int


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """A stream took another rung of its degradation ladder."""

    at_ns: int
    """Monotonic time from which frames that begin take it."""
    stream: str
    rung: str
    """Its name."""
    cause: str
    """``demand``, ``clock``, ``admission``, ``misses``, ``probe``, ``probe_failed``."""
    demand_permille: int
    """Expected demand on the scarcest resource before the move."""


@dataclass(frozen=True, slots=True)
class EventFacts:
    """Something befell a stream's source."""

    at_ns: int
    """Monotonic time at which that was known."""
    stream: str
    kind: str
    detail: str
    pts_ns: int | None
    """Media time of the frame that follows."""
    amount_ns: int
    """How much time is concerned: the length of a gap, of a step back, of a wait."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream and what the ledger counted for it, warm-up included."""

    stream: str
    criticality: str
    deadline_ns: int
    """From capture to delivery: a length of time."""
    captured: int
    in_flight: int
    """Frames without a fate when the run ended."""
    fates: Mapping[str, int]
    """Frames by ``completed``, ``late``, ``dropped:<reason>``, ``failed:<reason>``."""
    depth: DepthFacts | None = None
    """None when nobody looked."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """What a result is worth, by the variant of its frame: the rungs of the ladder and
    ``track_only``; 1 where nothing is said. Empty without a ladder."""

    @property
    def balanced(self) -> bool:
        """Whether every captured frame has exactly one fate or is in flight."""
        return self.captured == sum(self.fates.values()) + self.in_flight


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything that a summary needs and the frame records do not say."""

    command: str
    """The verb: ``run``, ``bench``, ..."""
    started: datetime
    """Wall time with its zone; for people and file names only."""
    measured_from_ns: int
    """Monotonic time at which the warm-up was over."""
    measured_until_ns: int
    """Monotonic time at which the last frame was let in or the run was stopped."""
    warm_up_ns: int
    asked_ns: int | None
    """Measured time that was asked for; None for "until the sources end"."""
    streams: Sequence[StreamFacts]
    sources: Sequence[SourceRecord]
    engine: Mapping[str, Any] | None
    """What was loaded, by name; None when no stage infers."""
    model: Mapping[str, Any] | None
    resources: Mapping[str, int]
    """Slots by resource name."""
    ledger_balanced: bool
    """What the ledger says of itself; the streams' counts are checked as well."""
    forced_stop: str
    """Why the pipeline had to be stopped by force; empty after a clean stop."""
    config_hash: str
    environment: Mapping[str, Any]
    """From ``environment.collect_environment``."""
    process: Mapping[str, Any]
    """From ``process.ProcessSampler.summary``."""
    recorder: RecorderFacts
    sink_failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Failed writes by sink name, zeros included."""
    stage_errors: Mapping[str, tuple[int, str]] = field(
        default_factory=dict[str, tuple[int, str]]
    )
    """For each stage that raised: how often, and its first error."""
    warnings: Sequence[str] = ()
    """What sources and model card had to assume or repair, one line each."""
    unrecorded: int = 0
    """Frames whose record could not be kept at all."""
    moves: Sequence[MoveFacts] = ()
    """On the streams' ladders, oldest first."""
    moves_left_out: int = 0
    """Older ones, which nobody kept."""
    source_events: Mapping[tuple[str, str], int] = field(
        default_factory=dict[tuple[str, str], int]
    )
    """What befell the sources: how often, by stream and kind."""
    source_history: Sequence[EventFacts] = ()
    """The newest of it, oldest first."""
    device: DeviceFacts = field(default_factory=DeviceFacts)
    power_required: bool = False
    """Whether a run without a power figure is worth nothing."""
    irregularities: Sequence[str] = ()
    """What was found wrong with the books while it ran, one line each."""
    preflight: Sequence[str] = ()
    """Why figures of this machine are not to be trusted, as asked for before the run;
    one line each."""

    @property
    def duration_ns(self) -> int:
        """Length of the measured part."""
        return self.measured_until_ns - self.measured_from_ns

    @property
    def balanced(self) -> bool:
        """Whether the ledger says so and the counts of all streams add up."""
        return self.ledger_balanced and all(each.balanced for each in self.streams)
