"""Every key of a scenario: what ``edgepipe simulate`` plays.

Durations are integer nanoseconds in fields named ``…_ns``; in YAML the key has no
suffix and the value has a unit. Shares and factors are numbers of which three decimals
count. Rules that span several values stand in ``scenario_load``.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, Strict

from edgepipe.configs.kinds import (
    Kind,
    UnfitError,
    choice,
    duration,
    identifier,
    or_null,
    promise,
    real,
    switch,
    text,
    whole,
)
from edgepipe.configs.scalars import is_list
from edgepipe.configs.schema import Criticality, Mode, OnMiss, Overflow
from edgepipe.configs.section import MAY_BE_NULL, Section
from edgepipe.scheduler.job import Contract

FailureReason = Literal["stage_error", "bad_output", "damaged"]

_FACTOR = real(0.001, 1000)


def share() -> Kind:
    """A share of the whole."""
    return real(0, 1)


def list_of(kind: Kind, longest: int) -> Kind:
    """A list of values of one kind."""

    def read(value: object) -> object:
        if not is_list(value) or len(value) > longest:
            raise UnfitError
        return tuple(kind.read(item) for item in value)

    def write(values: tuple[object, ...]) -> object:
        return [kind.write(value) for value in values]

    schema = {"type": "array", "items": dict(kind.schema), "maxItems": longest}
    wanted = f"a list of at most {longest} values, each {kind.wanted}"
    return Kind(wanted, read, schema, write)


class ResourceEntry(Section):
    """Something that steps occupy."""

    name: Annotated[str, identifier()] = Field(description="What steps call it.")
    slots: Annotated[int, whole(1, 64)] = Field(
        default=1, description="Jobs or batches that run on it at the same time."
    )
    planned: Annotated[bool, switch()] = Field(
        default=True,
        description="Whether the policy looks ahead before it lets a job begin here;"
        " right for what can become scarce.",
    )


class BatchEntry(Section):
    """Jobs that run together take less than one after the other."""

    max: Annotated[int, whole(2, 64)] = Field(description="Most jobs in one batch.")
    each: Annotated[float, real(0.001, 1)] = Field(
        default=0.6,
        description="What each further job adds, against the time of a job alone.",
    )


class SlowEntry(Section):
    """The second mode of bimodal times."""

    chance: Annotated[float, share()] = Field(description="Share of slow frames.")
    factor: Annotated[float, _FACTOR] = Field(description="How much longer they take.")


class PhasesEntry(Section):
    """Slow phases that last several frames and hit all streams at once."""

    length_ns: Annotated[int, duration()] = Field(
        alias="length", description="Length of a phase."
    )
    chance: Annotated[float, share()] = Field(description="Share of slow phases.")
    factor: Annotated[float, _FACTOR] = Field(
        description="How much longer the step takes in one."
    )


class StepEntry(Section):
    """One step that frames take."""

    name: Annotated[str, identifier()] = Field(description="Unique in its stream.")
    resource: Annotated[str, identifier()] = Field(description="What it occupies.")
    time_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None,
        alias="time",
        description="Mean service time, alone and at full clock; null: that of"
        " `replay`.",
    )
    replay: Annotated[tuple[int, ...], list_of(duration(), 4000)] = Field(
        default=(),
        description="Measured service times, used in turn instead of `time`.",
    )
    budget_ns: Annotated[int | None, or_null(duration(zero=True))] = Field(
        default=None,
        alias="budget",
        description="What the scheduler is told to expect; null: the truth, `0s`:"
        " nothing.",
    )
    spread: Annotated[float, share()] = Field(
        default=0.0,
        description="Standard deviation of the logarithm of the time; 0: always the"
        " same.",
    )
    slow: Annotated[SlowEntry | None, MAY_BE_NULL] = Field(
        default=None, description="Rare long times."
    )
    phases: Annotated[PhasesEntry | None, MAY_BE_NULL] = Field(
        default=None, description="Phases in which all frames take longer."
    )
    stateful: Annotated[bool, switch()] = Field(
        default=False,
        description="Whether frames of a stream take it one at a time and in order.",
    )
    network: Annotated[bool, switch()] = Field(
        default=False,
        description="Whether it is the network's: the ladder makes it cheaper, and"
        " track-only frames leave it out.",
    )
    segments: Annotated[int, whole(1, 64)] = Field(
        default=1,
        description="Pieces between which others may run, as an engine that can stop"
        " in between has them.",
    )
    batch: Annotated[BatchEntry | None, MAY_BE_NULL] = Field(
        default=None,
        description="Jobs of all streams whose step has the same name run as one.",
    )


class RungEntry(Section):
    """One step of the degradation ladder; the first is full quality."""

    name: Annotated[str, identifier()] = Field(description="Unique on its ladder.")
    value: Annotated[float, real(0.001, 1)] = Field(
        default=1.0, description="What a frame is worth on it."
    )
    cost: Annotated[float, real(0.001, 1)] = Field(
        default=1.0, description="Cost of the network's steps against full quality."
    )
    stride: Annotated[int, whole(1, 100)] = Field(
        default=1, description="One frame in so many is worked on."
    )
    infer_every: Annotated[int, whole(1, 100)] = Field(
        default=1, description="One frame in so many runs the network."
    )
    track_only_value: Annotated[float, real(0, 1)] = Field(
        default=1.0, description="What a frame is worth that left the network out."
    )
    batch_max: Annotated[int | None, or_null(whole(1, 64))] = Field(
        default=None, description="Most jobs in a batch; null: as the step says."
    )


class StreamQueueEntry(Section):
    """The bounded queue of frames in which little has been invested."""

    capacity: Annotated[int, whole(1, 1000)] = Field(
        default=8, description="Most frames that wait."
    )
    overflow: Annotated[Overflow, choice(get_args(Overflow))] = Field(
        default="drop_oldest", description="What a full queue does."
    )
    steps: Annotated[int, whole(1, 64)] = Field(
        default=1, description="The first so many steps draw from it."
    )


class CameraEntry(Section):
    """A stream, or several equal ones, and how its frames come."""

    id: Annotated[str, identifier()] = Field(
        description="Name of the stream; with `count`, `-0`, `-1`, ... are added."
    )
    count: Annotated[int | None, or_null(whole(1, 256))] = Field(
        default=None, description="So many equal streams; null: one."
    )
    fps: Annotated[float, real(0.001, 10_000)] = Field(description="Frames a second.")
    deadline_ns: Annotated[int, duration()] = Field(
        alias="deadline", description="Longest time from capture to delivery."
    )
    steps: Annotated[tuple[StepEntry, ...], Strict(False)] = Field(
        min_length=1, description="What its frames go through, in this order."
    )
    criticality: Annotated[Criticality, choice(get_args(Criticality))] = Field(
        default="normal", description="Which streams go first."
    )
    weight: Annotated[int, whole(1, 1000)] = Field(
        default=1, description="What a frame is worth against those of other streams."
    )
    contract: Annotated[Contract | None, or_null(promise())] = Field(
        default=None,
        description="How many of any so many frames in a row are to be in time; null:"
        " nothing is promised.",
    )
    on_miss: Annotated[OnMiss, choice(get_args(OnMiss))] = Field(
        default="drop", description="What becomes of results that are late."
    )
    queue: StreamQueueEntry = Field(
        default=StreamQueueEntry(), description="The frames that wait."
    )
    max_in_flight: Annotated[int, whole(1, 1000)] = Field(
        default=8, description="Most frames between source and sink."
    )
    credits: Annotated[bool, switch()] = Field(
        default=False, description="Whether the source waits until it may go on."
    )
    mode: Annotated[Mode, choice(get_args(Mode))] = Field(
        default="all",
        description="Which of its waiting frames are worth the work: `all` of them,"
        " the `latest_only`, or all with the `freshest_first`.",
    )
    max_rate: Annotated[float | None, or_null(real(0.001, 10_000))] = Field(
        default=None,
        description="Most frames a second that are taken; those that come sooner are"
        " dropped. null: all.",
    )
    min_service_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None,
        alias="min_service",
        description="A background stream that has waited so long may cost others a"
        " frame that their contract allows; null: it waits for its chance.",
    )
    ladder: Annotated[tuple[RungEntry, ...], Strict(False)] = Field(
        default=(), description="Cheaper ways to work; empty: full quality only."
    )
    offset_ns: Annotated[int, duration(zero=True)] = Field(
        default=0, alias="offset", description="Capture of the first frame."
    )
    in_sync: Annotated[bool, switch()] = Field(
        default=False,
        description="Whether all of `count` capture at once; else they take turns in"
        " equal distances.",
    )
    phase_spread_ns: Annotated[int, duration(zero=True)] = Field(
        default=1_000_000,
        alias="phase_spread",
        description="The seed delays each stream by up to so much.",
    )
    jitter_ns: Annotated[int, duration(zero=True)] = Field(
        default=300_000,
        alias="jitter",
        description="A frame arrives up to so much after its capture.",
    )
    starts_ns: Annotated[int, duration(zero=True)] = Field(
        default=0,
        alias="starts",
        description="When the stream asks to be admitted; `0s`: it is there at first.",
    )
    ends_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None, alias="ends", description="When it ends; null: at the end."
    )


class SurgeEntry(Section):
    """A time in which a step takes longer, on every stream."""

    step: Annotated[str, identifier()] = Field(description="Name of the step.")
    start_ns: Annotated[int, duration(zero=True)] = Field(
        alias="from", description="Capture of the first frame that it concerns."
    )
    end_ns: Annotated[int, duration()] = Field(
        alias="to", description="Frames captured from then on are as before."
    )
    factor: Annotated[float, _FACTOR] = Field(description="How much longer it takes.")


class StallEntry(Section):
    """A camera that delivers nothing for a while, and then everything at once."""

    stream: Annotated[str, identifier()] = Field(description="Which one.")
    at_ns: Annotated[int, duration(zero=True)] = Field(
        alias="at", description="When it begins."
    )
    length_ns: Annotated[int, duration()] = Field(
        alias="length", description="How long it lasts."
    )


class StampEntry(Section):
    """Stamps that are wrong for a while. One of ``ahead`` and ``behind`` is given."""

    stream: Annotated[str, identifier()] = Field(description="Which one.")
    start_ns: Annotated[int, duration(zero=True)] = Field(
        alias="from", description="Capture of the first frame that it concerns."
    )
    end_ns: Annotated[int, duration()] = Field(
        alias="to", description="Frames captured from then on have true stamps."
    )
    ahead_ns: Annotated[int, duration(zero=True)] = Field(
        default=0, alias="ahead", description="How far the stamps lie in the future."
    )
    behind_ns: Annotated[int, duration(zero=True)] = Field(
        default=0, alias="behind", description="How far they lie in the past."
    )


class FailureEntry(Section):
    """A step that breaks on some frames."""

    stream: Annotated[str, identifier()] = Field(description="Which stream's.")
    step: Annotated[str, identifier()] = Field(description="Which step.")
    chance: Annotated[float, share()] = Field(
        default=0.0, description="Share of frames on which it breaks."
    )
    sequences: Annotated[tuple[int, ...], list_of(whole(0, 10**9), 1000)] = Field(
        default=(), description="Frames on which it breaks for certain."
    )
    reason: Annotated[FailureReason, choice(get_args(FailureReason))] = Field(
        default="stage_error", description="What becomes of them."
    )


class ClockEntry(Section):
    """A change of a resource's hardware clock."""

    resource: Annotated[str, identifier()] = Field(description="Which one.")
    at_ns: Annotated[int, duration(zero=True)] = Field(
        alias="at", description="When it changes."
    )
    clock: Annotated[float, real(0.001, 10)] = Field(
        description="The new clock against the one at which the times hold."
    )
    reported_after_ns: Annotated[int | None, or_null(duration(zero=True))] = Field(
        default=0,
        alias="reported_after",
        description="How much later the scheduler is told; null: never.",
    )


class PauseEntry(Section):
    """A time in which a resource makes no progress."""

    resource: Annotated[str, identifier()] = Field(description="Which one.")
    start_ns: Annotated[int, duration(zero=True)] = Field(
        alias="from", description="When it stops."
    )
    end_ns: Annotated[int, duration()] = Field(
        alias="to", description="When it goes on."
    )


class ScenarioConfig(Section):
    """One workload and its mishaps."""

    version: Annotated[Literal[1], whole(1, 1)] = Field(
        description="Version of this format."
    )
    about: Annotated[str, text(longest=200)] = Field(description="One line for people.")
    duration_ns: Annotated[int, duration()] = Field(
        default=60_000_000_000,
        alias="duration",
        description="Frames are captured for so long; what is in flight then drains.",
    )
    resources: Annotated[tuple[ResourceEntry, ...], Strict(False)] = Field(
        min_length=1, description="What steps occupy."
    )
    streams: Annotated[tuple[CameraEntry, ...], Strict(False)] = Field(
        min_length=1, description="Where frames come from."
    )
    surges: Annotated[tuple[SurgeEntry, ...], Strict(False)] = Field(
        default=(), description="Times in which a step takes longer."
    )
    stalls: Annotated[tuple[StallEntry, ...], Strict(False)] = Field(
        default=(), description="Cameras that fall silent and catch up."
    )
    stamps: Annotated[tuple[StampEntry, ...], Strict(False)] = Field(
        default=(), description="Time stamps that are wrong."
    )
    failures: Annotated[tuple[FailureEntry, ...], Strict(False)] = Field(
        default=(), description="Steps that break."
    )
    clocks: Annotated[tuple[ClockEntry, ...], Strict(False)] = Field(
        default=(), description="Changes of hardware clocks."
    )
    pauses: Annotated[tuple[PauseEntry, ...], Strict(False)] = Field(
        default=(), description="Resources that stand still for a while."
    )
