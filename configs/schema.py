"""Every configuration key: its type, its default, and what it does.

Durations are integer nanoseconds in fields named ``…_ns``; in YAML the key has no
suffix and the value has a unit (``deadline: 100ms``). Defaults are written in the code
as they are in YAML. Rules that span several values stand in ``rules``.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, Strict

from edgepipe.configs import units
from edgepipe.configs.kinds import (
    ID_RULE,
    choice,
    duration,
    file_path,
    identifier,
    or_null,
    promise,
    real,
    switch,
    text,
    whole,
)
from edgepipe.configs.section import Section
from edgepipe.configs.sink_schema import SinkConfig
from edgepipe.scheduler.job import Contract
from edgepipe.scheduler.policy import BY_NAME

Criticality = Literal["critical", "normal", "background"]
OnMiss = Literal["drop", "deliver_late"]
Overflow = Literal["block", "drop_oldest", "drop_newest"]
Mode = Literal["all", "latest_only", "freshest_first"]
Pace = Literal["realtime", "fast"]
Precision = Literal["int8", "fp32"]
EngineChoice = Literal["auto", "openvino", "onnxruntime"]
TrackerKind = Literal["iou", "none"]
POLICIES = tuple(name for name, policy in BY_NAME.items() if not policy.ladder)
"""Those that can be chosen: a stream has no key for a ladder yet."""


class SourceConfig(Section):
    """Where a stream's frames come from."""

    uri: Annotated[str, text()] = Field(
        description="What to open: the path of a file or folder, `sample:NAME` or"
        " `synthetic:?seed=1&width=320&height=192&fps=30`. A relative path is relative"
        " to the directory in which edgepipe was started."
    )
    loop: Annotated[bool, switch()] = Field(
        default=False, description="Begin again when a recording ends."
    )
    pace: Annotated[Pace, choice(get_args(Pace))] = Field(
        default="realtime",
        description="`realtime`: frames of a recording arrive when its time stamps"
        " say so, as from a camera. `fast`: as soon as they are wanted; deadlines count"
        " from then, so give a long one to see every frame of a recording.",
    )
    fps: Annotated[float | None, or_null(real(0.001, 10_000))] = Field(
        default=None,
        description="Frames per second of an input without time stamps, such as a"
        " folder of images.",
    )


class QueueConfig(Section):
    """The bounded queue of frames whose network input has not been made yet."""

    capacity: Annotated[int, whole(1, 1000)] = Field(
        default=2,
        description="Most frames that wait; at most `scheduler.max_in_flight`.",
    )
    overflow: Annotated[Overflow, choice(get_args(Overflow))] = Field(
        default="drop_oldest",
        description="What a full queue does: `block` makes the source wait,"
        " `drop_oldest` keeps the newest frames, `drop_newest` refuses the frame"
        " that arrives.",
    )


class StreamConfig(Section):
    """Frames from one source, and what is promised for them."""

    id: Annotated[str, identifier()] = Field(
        description=f"Unique name of the stream: {ID_RULE}. It stays the text typed,"
        " also where YAML could read a number or a boolean."
    )
    source: SourceConfig = Field(description="Where the frames come from.")
    criticality: Annotated[Criticality, choice(get_args(Criticality))] = Field(
        default="normal",
        description="Which streams go first when there is not time for all.",
    )
    deadline_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("100ms"),
        alias="deadline",
        description="Longest time from the capture of a frame to its delivery.",
    )
    on_miss: Annotated[OnMiss, choice(get_args(OnMiss))] = Field(
        default="drop",
        description="What becomes of a frame that is not ready by its deadline:"
        " `drop` gives it up, `deliver_late` delivers it marked as late.",
    )
    queue: QueueConfig = Field(
        default=QueueConfig(), description="The frames that wait."
    )
    weight: Annotated[int, whole(1, 1000)] = Field(
        default=1,
        description="What one frame is worth against those of other streams of the"
        " same criticality, when there is not time for all.",
    )
    contract: Annotated[Contract | None, or_null(promise())] = Field(
        default=None,
        description="How many of any so many frames in a row are to be in time; what"
        " would break it goes before what would not. At most 64 frames; null: nothing"
        " is promised.",
    )
    mode: Annotated[Mode, choice(get_args(Mode))] = Field(
        default="all",
        description="Which of its waiting frames are worth the work: `all`;"
        " `latest_only`, where a newer one takes the place of one that waits for the"
        " same step; `freshest_first`, where the newest goes first.",
    )
    max_rate: Annotated[float | None, or_null(real(0.001, 10_000))] = Field(
        default=None,
        description="Most frames per second that are taken; those that come sooner are"
        " dropped as `rate_cap`. null: all.",
    )
    min_service_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None,
        alias="min_service",
        description="Only for a `background` stream: when it has got nothing for so"
        " long, it may cost other streams a frame that their contract can spare. null:"
        " it waits until nobody else needs the time.",
    )


class ModelConfig(Section):
    """The detector, and how it is run."""

    path: Annotated[str, text()] = Field(
        default="nanodet-g",
        description="Name of a model that ships with edgepipe, or the path of an"
        " `.onnx` file.",
    )
    precision: Annotated[Precision, choice(get_args(Precision))] = Field(
        default="int8", description="Which of the model's files is run."
    )
    engine: Annotated[EngineChoice, choice(get_args(EngineChoice))] = Field(
        default="auto",
        description="The library that runs it; `auto` takes the fastest one that is"
        " installed and says which.",
    )
    card: Annotated[str | None, or_null(file_path())] = Field(
        default=None,
        description="Path of the model card; null: beside the model, with the same"
        " name and `.yaml`.",
    )
    score: Annotated[float | None, or_null(real(0, 1))] = Field(
        default=None,
        description="Lowest score of a detection; null: the model card's.",
    )
    iou: Annotated[float | None, or_null(real(0, 1))] = Field(
        default=None,
        description="Overlap (intersection over union) above which the weaker of two"
        " detections is removed; null: the model card's.",
    )
    max_detections: Annotated[int | None, or_null(whole(1, 10_000))] = Field(
        default=None,
        description="Most detections kept in a frame; null: the model card's.",
    )
    class_agnostic: Annotated[bool | None, or_null(switch())] = Field(
        default=None,
        description="Whether detections of different classes remove each other; null:"
        " the model card's.",
    )


class TrackerConfig(Section):
    """How detections become tracks."""

    kind: Annotated[TrackerKind, choice(get_args(TrackerKind))] = Field(
        default="iou",
        description="`iou` joins boxes that overlap from frame to frame; `none`"
        " delivers detections only.",
    )
    iou: Annotated[float, real(0.001, 1)] = Field(
        default=0.3,
        description="Least overlap (intersection over union) with where the track is"
        " expected or was last seen.",
    )
    max_age_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("1s"),
        alias="max_age",
        description="How long a track lives without a detection.",
    )
    min_hits: Annotated[int, whole(1, 1000)] = Field(
        default=2, description="Detections before a track is confirmed."
    )


class ResourcesConfig(Section):
    """How many jobs run at once, by resource."""

    cpu: Annotated[int, whole(1, 256)] = Field(
        default=2,
        description="Jobs that run at the same time on the processor; each is granted"
        " one thread.",
    )


class SchedulerConfig(Section):
    """Which job goes next, and on what."""

    policy: Annotated[str, choice(POLICIES)] = Field(
        default="slack",
        description="`slack` looks ahead and gives up early what cannot be in time, by"
        " criticality, contract and weight. The others are there to compare with: they"
        " look at one thing only, such as the deadline or the order of arrival.",
    )
    resources: ResourcesConfig = Field(
        default=ResourcesConfig(), description="What jobs can run on."
    )
    fuse: Annotated[bool, switch()] = Field(
        default=True,
        description="Run adjacent stages on one resource as one job, which saves"
        " hand-offs.",
    )
    max_in_flight: Annotated[int, whole(1, 1000)] = Field(
        default=8, description="Most frames of one stream between source and sinks."
    )


class TelemetryConfig(Section):
    """What is kept of a run."""

    dir: Annotated[str, file_path()] = Field(
        default="runs",
        description="Folder in which every run makes its own folder; a relative path"
        " is relative to the directory in which edgepipe was started.",
    )
    samples: Annotated[int, whole(100, 10_000_000)] = Field(
        default=131_072,
        description="Samples kept of each measured time, the newest; 8 bytes each,"
        " three times for a stream and twice for a stage.",
    )


class RunConfig(Section):
    """When a run begins to count, and when it ends."""

    warm_up_ns: Annotated[int | None, or_null(duration(zero=True))] = Field(
        default=None,
        alias="warm_up",
        description="Time at the start that is left out of the numbers; null: ``2s``"
        " for ``bench``, none for ``run``.",
    )
    duration_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None,
        alias="duration",
        description="Length of the counted part; null: until the sources end or"
        " somebody stops it.",
    )
    stop_within_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("5s"),
        alias="stop_within",
        description="Longest time a stop may take; what is unfinished then is given"
        " up.",
    )


class Config(Section):
    """One whole pipeline."""

    version: Annotated[Literal[1], whole(1, 1)] = Field(
        description="Version of this format."
    )
    streams: Annotated[tuple[StreamConfig, ...], Strict(False)] = Field(
        min_length=1, description="The streams, one item each."
    )
    model: ModelConfig = Field(default=ModelConfig(), description="The detector.")
    tracker: TrackerConfig = Field(
        default=TrackerConfig(), description="From detections to tracks."
    )
    scheduler: SchedulerConfig = Field(
        default=SchedulerConfig(), description="Who goes next, on what."
    )
    telemetry: TelemetryConfig = Field(
        default=TelemetryConfig(), description="What is kept of a run."
    )
    sinks: Annotated[tuple[SinkConfig, ...], Strict(False)] = Field(
        default=(), description="Where results go besides the report."
    )
    run: RunConfig = Field(default=RunConfig(), description="Start and end of a run.")
