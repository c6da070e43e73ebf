"""A workload and its mishaps, as plain values: what the simulator plays.

Nothing here is random by itself. :mod:`edgepipe.scheduler.workload` draws from it, by
a seed, and draws the same for every policy. Times are nanoseconds of virtual time,
shares and factors are thousandths.
"""

from dataclasses import dataclass

from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import PERMILLE, Resource, StreamSpec

FRAME_RATE_UNIT_NS = 10**12
"""One frame in a thousand seconds: frame rates are integers of that, so that neither
30 nor 29.97 frames a second drift."""


@dataclass(frozen=True, slots=True)
class Slow:
    """One frame in a while takes far longer: the second mode of bimodal times."""

    chance_permille: int
    factor_permille: int


@dataclass(frozen=True, slots=True)
class Phases:
    """Slow phases that last several frames and hit all streams at once.

    Time is cut into pieces of ``length_ns``; in one that is drawn as slow, every frame
    captured in it takes ``factor_permille`` of its time.
    """

    length_ns: int
    chance_permille: int
    factor_permille: int

    def __post_init__(self) -> None:
        """Refuse phases of no length."""
        if self.length_ns < 1:
            raise ValueError("slow phases need a length")


@dataclass(frozen=True, slots=True)
class Surge:
    """Frames captured from ``start_ns`` until before ``end_ns`` take longer."""

    start_ns: int
    end_ns: int
    factor_permille: int


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """How long a step takes alone, at full clock, on rung 0.

    The time is the mean, or the frame's turn in the replayed list, times every factor
    that applies to the frame.
    """

    mean_ns: int = 0
    replay_ns: tuple[int, ...] = ()
    """Measured times, used in turn and from the start again; empty: ``mean_ns``."""
    sigma_permille: int = 0
    """Lognormal spread: standard deviation of the logarithm. The mean is kept."""
    slow: Slow | None = None
    phases: Phases | None = None
    surges: tuple[Surge, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a step that takes no time."""
        if min(self.replay_ns, default=self.mean_ns) < 1:
            raise ValueError("a service time must be at least 1 ns")
        if self.sigma_permille < 0:
            raise ValueError("sigma_permille must not be negative")

    @property
    def is_constant(self) -> bool:
        """Whether every frame takes the mean."""
        varies = self.replay_ns or self.sigma_permille or self.surges
        return not varies and self.slow is None and self.phases is None


@dataclass(frozen=True, slots=True)
class Stall:
    """Frames captured in this time all arrive at its end, their stamps being true."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StampError:
    """Frames captured in this time bear a stamp that is off; the records stay true."""

    start_ns: int
    end_ns: int
    offset_ns: int
    """What is added to the true moment; may be negative."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that breaks on some frames, after having taken its time."""

    step: int
    reason: Reason = Reason.STAGE_ERROR
    chance_permille: int = 0
    sequences: frozenset[int] = frozenset()
    """Frames on which it breaks for certain."""

    @property
    def fate(self) -> Fate:
        """A damaged picture is nobody's failure; everything else is."""
        return Fate.DROPPED if self.reason is Reason.DAMAGED else Fate.FAILED


@dataclass(frozen=True, slots=True)
class Camera:
    """A stream and how its frames come and what they cost."""

    spec: StreamSpec
    service: tuple[ServiceModel, ...]
    """One for each step of the stream."""
    frame_rate: int
    """Frames in a thousand seconds: 30000 for 30 frames a second."""
    phase_ns: int = 0
    """Capture of frame 0, counted from ``starts_ns``."""
    phase_spread_ns: int = 0
    """The seed delays all frames by up to so much."""
    jitter_ns: int = 0
    """A frame arrives up to so much after its capture."""
    starts_ns: int = 0
    """When the stream asks to be admitted; 0: it is there from the beginning."""
    ends_ns: int | None = None
    """When the camera falls silent; None: with the scenario."""
    stalls: tuple[Stall, ...] = ()
    stamp_errors: tuple[StampError, ...] = ()
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        name = self.spec.id
        if len(self.service) != len(self.spec.steps):
            raise ValueError(f"stream {name!r}: every step needs a service model")
        if self.frame_rate < 1:
            raise ValueError(f"stream {name!r}: frame_rate must be positive")
        if not self.spec.deadline_ns:
            raise ValueError(f"stream {name!r}: a simulated stream needs a deadline")
        if not 0 <= self.jitter_ns < self.period_ns:
            raise ValueError(f"stream {name!r}: jitter must be less than a period")

    @property
    def period_ns(self) -> int:
        """Time between two captures, rounded down."""
        return FRAME_RATE_UNIT_NS // self.frame_rate


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The hardware clock of a resource changes: jobs that begin later take longer."""

    at_ns: int
    resource: str
    permille: int
    """Thousandths of the clock at which the service times hold."""
    reported_after_ns: int | None = 0
    """When the scheduler is told, counted from the change; None: never."""

    def __post_init__(self) -> None:
        """Refuse a clock that stands still."""
        if self.permille < 1:
            raise ValueError(f"clock of {self.resource!r} must be positive")


@dataclass(frozen=True, slots=True)
class Pause:
    """A resource that makes no progress: what runs on it ends that much later."""

    resource: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that one simulation plays."""

    name: str
    duration_ns: int
    """Frames are captured before this moment; what is in flight then drains."""
    resources: tuple[Resource, ...]
    cameras: tuple[Camera, ...]
    clock_steps: tuple[ClockStep, ...] = ()
    pauses: tuple[Pause, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that are given twice or not at all."""
        names = [resource.name for resource in self.resources]
        streams = [camera.spec.id for camera in self.cameras]
        if len({*names}) < len(names) or len({*streams}) < len(streams):
            raise ValueError(f"scenario {self.name!r}: a name is given twice")
        used = {step.resource for camera in self.cameras for step in camera.spec.steps}
        used |= {change.resource for change in self.clock_steps}
        used |= {pause.resource for pause in self.pauses}
        if unknown := used - {*names}:
            raise ValueError(f"scenario {self.name!r}: unknown {min(unknown)!r}")


def scaled(value: int, *factors_permille: int) -> int:
    """The value times each factor in thousandths, rounded down; at least 1."""
    for factor in factors_permille:
        value = value * factor // PERMILLE
    return max(1, value)
