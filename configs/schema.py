"""Every configuration key: its type, its default, and what it does.

Durations are integer nanoseconds in fields named ``…_ns``; in YAML the key has no
suffix and the value has a unit (``deadline: 100ms``). Defaults are written in the code
as they are in YAML. Rules that span several values stand in ``rules``.
"""

from fractions import Fraction
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
    processors,
    promise,
    real,
    switch,
    text,
    times_as_fast,
    whole,
)
from edgepipe.configs.section import MAY_BE_NULL, Section
from edgepipe.configs.sink_schema import SinkConfig
from edgepipe.configs.telemetry_schema import TelemetryConfig
from edgepipe.scheduler.job import Contract
from edgepipe.scheduler.policy import BY_NAME

Criticality = Literal["critical", "normal", "background"]
OnMiss = Literal["drop", "deliver_late"]
Overflow = Literal["block", "drop_oldest", "drop_newest"]
Mode = Literal["all", "latest_only", "freshest_first"]
Pace = Literal["realtime", "fast"]
Transport = Literal["tcp", "udp"]
DecoderChoice = Literal["software", "nvdec", "auto"]
Precision = Literal["int8", "fp32"]
GateMode = Literal["require", "warn"]
EngineChoice = Literal["auto", "openvino", "onnxruntime", "torch", "torch-cuda"]
TrackerKind = Literal["iou", "none"]
AUTO = "auto"
POLICIES = (AUTO, *BY_NAME)
"""Those that can be chosen; ``auto`` is the best one for what is configured."""


class SourceConfig(Section):
    """Where a stream's frames come from."""

    uri: Annotated[str, text()] = Field(
        description="What to open: the path of a file or folder, `sample:NAME`,"
        " `mcap:PATH?topic=NAME`, `bag:PATH?topic=NAME`,"
        " `synthetic:?seed=1&width=320&height=192&fps=30`, or a camera: `rtsp://…`,"
        " `v4l2:…` or `csi:0` (docs/cameras.md). A relative path is relative to the"
        " directory in which edgepipe was started."
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
    speed: Annotated[Fraction, times_as_fast("0.01", "100")] = Field(
        default=Fraction(1),
        description="How many times as fast a recording is played with"
        " `pace: realtime`: `4x` or `0.5x`. Media times stay what they are; deadlines"
        " and all other times are those of the clock.",
    )
    fps: Annotated[float | None, or_null(real(0.001, 10_000))] = Field(
        default=None,
        description="Frames per second of an input without time stamps, such as a"
        " folder of images.",
    )
    transport: Annotated[Transport, choice(get_args(Transport))] = Field(
        default="tcp",
        description="Of an `rtsp:` camera: how its packets come. `udp` is a little"
        " faster where nothing is lost on the way.",
    )
    trust_clock: Annotated[bool, switch()] = Field(
        default=False,
        description="Of an `rtsp:` camera: its clock and this machine's agree to"
        " milliseconds, so the capture times that it reports are taken. Otherwise they"
        " are worked out from when its frames come.",
    )
    required: Annotated[bool, switch()] = Field(
        default=False,
        description="Of a camera: end at once if there is no picture at the start."
        " Otherwise it is tried again until there is.",
    )
    connect_timeout_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("5s"),
        alias="connect_timeout",
        description="Of a camera: longest time for opening it.",
    )
    start_timeout_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("10s"),
        alias="start_timeout",
        description="Of a camera: longest time from opening it to the first thing that"
        " it sends.",
    )
    stall_after_ns: Annotated[int | None, or_null(duration())] = Field(
        default=None,
        alias="stall_after",
        description="Of a camera: it has stalled when there is no picture for so long;"
        " null: the time of three frames, and at least a second.",
    )
    reconnect_after_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("5s"),
        alias="reconnect_after",
        description="Of a camera: it is closed and opened again when it has sent"
        " nothing for so long.",
    )
    frozen_after_ns: Annotated[int, duration(zero=True)] = Field(
        default=units.duration_ns("10s"),
        alias="frozen_after",
        description="Of a camera: it is told when the same picture comes for so long."
        " `0s`: it is not.",
    )
    retry_min_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("1s"),
        alias="retry_min",
        description="Of a camera that is lost: longest wait before it is tried again."
        " It doubles with every try that fails; the wait is at random a half of it to"
        " all of it.",
    )
    retry_max_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("10s"),
        alias="retry_max",
        description="Of a camera that is lost: longest wait between two tries. A device"
        " that is plugged in again is not waited for.",
    )
    retries: Annotated[int | None, or_null(whole(0, 1_000_000))] = Field(
        default=None,
        description="Of a camera: how often it is tried again in a row, without a"
        " picture, before it is given up; null: no end.",
    )

    decoder: Annotated[DecoderChoice, choice(get_args(DecoderChoice))] = Field(
        default="software",
        description="Who decodes video: `software`; `nvdec`, NVIDIA's decoder, which"
        " does not say when a picture is damaged: of a file through PyNvVideoCodec,"
        " with the same pictures; of an `rtsp:` camera through a Jetson's GStreamer;"
        " `auto`: `nvdec` where it can, and which it was is in the summary's warnings.",
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


class PromisesConfig(Section):
    """What is promised for the frames of a stream, and who works on them."""

    id: Annotated[str, identifier()] = Field(
        description=f"Unique name of the stream: {ID_RULE}. It stays the text typed,"
        " also where YAML could read a number or a boolean."
    )
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
    variant: Annotated[str | None, or_null(identifier())] = Field(
        default=None,
        description="The network of `model.variants` that looks at its frames at full"
        " quality; null: the model itself.",
    )

    classifiers: Annotated[
        tuple[Annotated[str, identifier()], ...] | None, Strict(False), MAY_BE_NULL
    ] = Field(
        default=None,
        description="Which of the top-level `classifiers` look at its objects; null:"
        " all of them, `[]`: none.",
    )


class BranchConfig(PromisesConfig):
    """Another use of a stream's decoded frames, with promises and books of its own.

    It gets a frame when the stream has decoded it. The picture is shared, and time
    counts from its capture. A branch never makes its stream wait.
    """


class StreamConfig(PromisesConfig):
    """Frames from one source, and what is promised for them."""

    source: SourceConfig = Field(description="Where the frames come from.")
    branches: Annotated[tuple[BranchConfig, ...], Strict(False)] = Field(
        default=(),
        description="Other uses of its decoded frames, one item each; to the scheduler"
        " and in every result they are streams of their own.",
    )


class VariantConfig(Section):
    """Another network for the rungs of the ladder and the streams that name it."""

    name: Annotated[str, identifier()] = Field(
        description="What rungs and streams call it; any name but `full`, which is the"
        " network that a stream has at full quality."
    )
    path: Annotated[str | None, or_null(text())] = Field(
        default=None, description="As of the model; null: the same."
    )
    precision: Annotated[Precision | None, or_null(choice(get_args(Precision)))] = (
        Field(default=None, description="As of the model; null: the same.")
    )
    card: Annotated[str | None, or_null(file_path())] = Field(
        default=None,
        description="Path of its model card, which must name the same classes; a card"
        " with a smaller input makes a variant of the same file. null: beside the file,"
        " or, without a path of its own, the model's.",
    )
    score: Annotated[float | None, or_null(real(0, 1))] = Field(
        default=None, description="Lowest score of a detection; null: its card's."
    )


class ModelConfig(Section):
    """The detector, and how it is run."""

    path: Annotated[str, text()] = Field(
        default="nanodet-g",
        description="Name of a model that ships with edgepipe, or the path of its card"
        " or of an `.onnx` file.",
    )
    precision: Annotated[Precision, choice(get_args(Precision))] = Field(
        default="int8", description="Which of the model's files is run."
    )
    engine: Annotated[EngineChoice, choice(get_args(EngineChoice))] = Field(
        default="auto",
        description="The library that runs it; `auto` takes the fastest one that is"
        " installed and says which.",
    )
    gate: Annotated[GateMode, choice(get_args(GateMode))] = Field(
        default="require",
        description="What becomes of an INT8 network, variant or classifier without a"
        " passed accuracy gate (docs/accuracy.md): `require` refuses to run it, `warn`"
        " runs it and says so.",
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
    batch_max: Annotated[int, whole(1, 16)] = Field(
        default=1,
        description="Most frames, of different streams or of one, that go through the"
        " network in one call. They wait for each other, and on a processor that buys"
        " little or nothing: see docs/benchmarks.md.",
    )
    variants: Annotated[tuple[VariantConfig, ...], Strict(False)] = Field(
        default=(),
        description="Other networks with the same classes, loaded and warm before the"
        " first frame.",
    )


class ClassifierConfig(Section):
    """A second network that looks at each object that the detector found."""

    name: Annotated[str, identifier()] = Field(
        description="What it tells: its name in every result."
    )
    path: Annotated[str, text()] = Field(description="Path of its `.onnx` file.")
    precision: Annotated[Precision, choice(get_args(Precision))] = Field(
        default="int8", description="Which of the model's files is run."
    )
    engine: Annotated[EngineChoice, choice(get_args(EngineChoice))] = Field(
        default="auto", description="As `model.engine`."
    )
    card: Annotated[str | None, or_null(file_path())] = Field(
        default=None,
        description="Path of its model card, whose head is one for second networks"
        " (docs/models.md); null: beside the model, with the same name and `.yaml`.",
    )
    classes: Annotated[
        tuple[Annotated[str, text()], ...] | None, Strict(False), MAY_BE_NULL
    ] = Field(
        default=None,
        description="Labels of the detector's classes at which it looks; null: all.",
    )
    max_crops: Annotated[int, whole(1, 100)] = Field(
        default=8,
        description="Most objects of a frame at which it looks, the surest first. It"
        " bounds the time that a crowd can cost; how many were left out is in the"
        " summary.",
    )
    min_side: Annotated[int, whole(1, 8192)] = Field(
        default=16,
        description="Objects with a shorter side, in pixels, are not looked at.",
    )
    margin: Annotated[float, real(0, 1)] = Field(
        default=0.0,
        description="Share of a box's width and height that is added on each side.",
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
    track_only_max_age_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("500ms"),
        alias="track_only_max_age",
        description="How long ago the network may have looked last for a track-only"
        " result to be delivered; what is older is dropped as `unseen`. More than"
        " `max_age` is no more than that.",
    )


class ResourcesConfig(Section):
    """How many jobs run at once, by resource."""

    cpu: Annotated[int, whole(1, 256)] = Field(
        default=2,
        description="Jobs that run at the same time on the processor; each is granted"
        " one thread.",
    )


class RungConfig(Section):
    """One rung: what is given up on it besides all that the rungs above give up."""

    stride: Annotated[int | None, or_null(whole(1, 100))] = Field(
        default=None,
        description="One frame in so many is worked on; the others are dropped as"
        " `stride`, and have missed.",
    )
    variant: Annotated[str | None, or_null(identifier())] = Field(
        default=None,
        description="The network of `model.variants` that looks at the frames; `full`"
        " is the one that the stream has at full quality.",
    )
    track_only: Annotated[int | None, or_null(whole(1, 100))] = Field(
        default=None,
        description="One frame in so many is looked at by the network; in the others"
        " the tracker tells where its objects should be.",
    )
    batch_max: Annotated[int | None, or_null(whole(1, 16))] = Field(
        default=None, description="As `model.batch_max`, on this rung."
    )
    value: Annotated[float | None, or_null(real(0.001, 1))] = Field(
        default=None,
        description="What a result is worth against one of full quality: it is what"
        " `utility` in the summary counts, and weighs frames when there is not time for"
        " all.",
    )
    track_only_value: Annotated[float | None, or_null(real(0.001, 1))] = Field(
        default=None,
        description="What the result of a frame is worth that the network has not"
        " looked at, in place of `value`.",
    )


class SchedulerConfig(Section):
    """Which job goes next, and on what."""

    policy: Annotated[str, choice(POLICIES)] = Field(
        default=AUTO,
        description="`slack` looks ahead and gives up early what cannot be in time, by"
        " criticality, contract and weight; `slack+ladder` gives up quality first, as"
        " `ladder` says; `auto` is the one of the two that fits. The others are there"
        " to compare with: they look at one thing only, such as the deadline or the"
        " order of arrival.",
    )
    ladder: Annotated[tuple[RungConfig, ...], Strict(False)] = Field(
        default=(),
        description="How every stream's frames are worked on more cheaply when there"
        " is not time for full quality: the first rung first, each with all that the"
        " rungs above it give up. What an item leaves out stays as on the rung above.",
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


class ThreadsConfig(Section):
    """What is asked of the system for the threads that do a resource's work."""

    cpus: Annotated[tuple[int, ...] | None, or_null(processors())] = Field(
        default=None, description="Processors that they may use; null: all."
    )
    realtime: Annotated[int | None, or_null(whole(1, 99))] = Field(
        default=None,
        description="Priority in the real-time class SCHED_FIFO, which goes before"
        " everything else and needs permission; null: ordinary time sharing.",
    )


class PlacementConfig(Section):
    """Where work runs, by resource. What the system refuses is a warning."""

    cpu: ThreadsConfig = Field(
        default=ThreadsConfig(), description="The workers of the processor."
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
    hang_after_ns: Annotated[int, duration()] = Field(
        default=units.duration_ns("10s"),
        alias="hang_after",
        description="A stage that has not come back for so long hangs: its frame fails"
        " as `hung` and another thread takes the place of its own. A step that is known"
        " to be slow gets three times what it needs.",
    )
    switch_interval_ns: Annotated[int | None, or_null(duration())] = Field(
        default=units.duration_ns("200us"),
        alias="switch_interval",
        description="How long a thread that computes in Python may keep the others"
        " waiting, for the time of the run; null: as Python has it, 5 ms.",
    )
    placement: PlacementConfig = Field(
        default=PlacementConfig(),
        description="Processors and priority of the worker threads.",
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
    classifiers: Annotated[tuple[ClassifierConfig, ...], Strict(False)] = Field(
        default=(),
        description="Second networks that look at what the detector found, one item"
        " each.",
    )
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

    @property
    def all_streams(self) -> tuple[PromisesConfig, ...]:
        """Every stream, each followed by its branches."""
        return tuple(
            each for stream in self.streams for each in (stream, *stream.branches)
        )
