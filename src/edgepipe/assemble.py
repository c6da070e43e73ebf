"""From a configuration to a running pipeline: the module that knows every folder."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from edgepipe.configs.model_card import read_card
from edgepipe.configs.schema import Config, ModelConfig, StreamConfig
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.engine import Engine
from edgepipe.models.load import load_engine
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Source
from edgepipe.pipeline.stage import Sink, Stage
from edgepipe.scheduler import policy
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import (
    Criticality,
    Mode,
    OnMiss,
    Overflow,
    Resource,
    Step,
    StreamSpec,
)
from edgepipe.stages.convert import Convert
from edgepipe.stages.decode import Decode
from edgepipe.stages.deliver import Deliver, Outlet
from edgepipe.stages.infer import Infer
from edgepipe.stages.native_threads import (
    keep_opencv_single_threaded,
    opencv_threads,
)
from edgepipe.stages.sinks.open import open_sink
from edgepipe.stages.sinks.per_stream import path_for
from edgepipe.stages.sinks.places import why_not
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.track import IouTracker
from edgepipe.telemetry.clock import Clock, MonotonicClock
from edgepipe.telemetry.records import FrameRecord

T = TypeVar("T")

SECOND_NS = 10**9

DECODE_THREADS = INFERENCE_THREADS = 1
"""For one frame. Parallelism comes from the scheduler's slots: a library that adds
threads of its own takes them from another frame."""

WARM_UP_INFERENCES = 5
"""Runs of each inference request before the first frame: the first and second are up
to eight times slower than the rest."""


def _ignore(record: FrameRecord) -> None:
    """Keep no records."""


@dataclass(frozen=True, slots=True)
class _PlacedStage:
    """A stage with where it runs and whether it needs its stream's frames in order."""

    stage: Stage
    resource: str
    stateful: bool
    network: bool = False
    """Whether it serves the network only: a track-only frame leaves it out."""


class Pipeline:
    """A configured pipeline: sources, model, stages and sinks, opened and owned.

    Use it with ``with``: everything it opened is closed in reverse order. Opening does
    all that can fail because of a user's mistake, before the first frame.

    Args:
        config: What to run.
        folder: Where relative paths of sinks go.
        on_record: Called once for each frame that leaves, quickly, from any thread.
        clock: The time; a test may bring its own.
        sinks: More sinks than the configuration names, closed with the pipeline: how
            a program that embeds edgepipe gets its results.

    Raises:
        EdgepipeError: Something that the configuration names cannot be opened.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        on_record: Callable[[FrameRecord], None] = _ignore,
        clock: Clock | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.config = config
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        self._card_warnings: tuple[str, ...] = ()
        self._closers = ExitStack()
        try:
            self._open(folder, on_record, sinks)
        except BaseException:
            self._closers.close()
            raise

    def _open(
        self,
        folder: Path,
        on_record: Callable[[FrameRecord], None],
        sinks: Sequence[Sink],
    ) -> None:
        slots = self.config.scheduler.resources.cpu
        self.resources: Mapping[str, int] = {"cpu": slots}
        keep_opencv_single_threaded()
        # Sources first: a wrong path is found before the model takes its second.
        self._sources = [self._open_source(stream) for stream in self.config.streams]
        self.card = self._read_card(self.config.model)
        self.engine: Engine = load_engine(
            self.card,
            self.config.model.precision,
            self.config.model.engine,
            requests=slots,
            threads=INFERENCE_THREADS,
        )
        self._closers.callback(self.engine.close)
        self._infer = Infer(self._detector(), self.config.model.precision)
        self.outlet = Outlet([*self._open_sinks(folder), *sinks])
        self._closers.callback(self.outlet.close)
        bound = self.config.scheduler.max_in_flight * len(self._sources)
        self._ring = BufferRing(bound, self.card.height, self.card.width)
        self.plans = [
            self._plan(stream, source)
            for stream, source in zip(self.config.streams, self._sources, strict=True)
        ]
        resources = [Resource(name, slots) for name, slots in self.resources.items()]
        scheduler = Scheduler(
            [plan.spec for plan in self.plans],
            resources,
            policy.BY_NAME[self.config.scheduler.policy],
        )
        self.runtime = Runtime(self.plans, scheduler, resources, self.clock, on_record)

    def _open_source(self, stream: StreamConfig) -> Source:
        source = open_source(
            stream.source.uri,
            loop=stream.source.loop,
            fps=stream.source.fps,
            decode_threads=DECODE_THREADS,
        )
        self._closers.callback(source.close)
        return source

    def _read_card(self, model: ModelConfig) -> ModelCard:
        card, self._card_warnings = read_card(_card_path(model))
        if model.path.endswith(".onnx"):
            _check_file(card, Path(model.path), model.precision)
        return card

    def _detector(self) -> Detector:
        model, card = self.config.model, self.card

        return Detector(
            card,
            self.engine,
            score=_or(model.score, card.score_threshold),
            iou=_or(model.iou, card.iou_threshold),
            max_detections=_or(model.max_detections, card.max_detections),
            class_agnostic=_or(model.class_agnostic, card.class_agnostic),
        )

    def _open_sinks(self, folder: Path) -> list[Sink]:
        sinks: list[Sink] = []
        for number, config in enumerate(self.config.sinks):
            where = f"sinks[{number}].path"
            written = getattr(config, "path", None)
            path = folder / written if written is not None else None
            if path is not None:
                self._check_place(where, config.kind, path, folder)
            try:
                sink = open_sink(
                    config.kind,
                    name=f"{config.kind}-{number}",
                    path=path,
                    class_names=self.card.class_names,
                    codec=getattr(config, "codec", "vp9"),
                )
            except OSError as error:
                problem = f"cannot write {error.filename or path}: {error.strerror}"
                raise ConfigError("", where, problem) from error
            # Until the outlet takes them over; closing twice does no harm.
            self._closers.callback(sink.close)
            sinks.append(sink)
        return sinks

    def _check_place(self, where: str, kind: str, path: Path, folder: Path) -> None:
        inputs = [
            Path(stream.source.uri.removeprefix("file:"))
            for stream in self.config.streams
        ]
        for stream in self.config.streams:
            problem = why_not(kind, path_for(path, stream.id), folder, inputs)
            if problem is not None:
                raise ConfigError("", where, problem)

    def _plan(self, stream: StreamConfig, source: Source) -> StreamPlan:
        """One stream's stages, in the order in which a frame meets them."""
        placed = [
            _PlacedStage(Decode(source), "cpu", stateful=True),
            _PlacedStage(
                Convert(
                    self._ring,
                    self.card.height,
                    self.card.width,
                    self.card.color,
                    self.card.align,
                    self.card.pad_value,
                ),
                "cpu",
                stateful=False,
                network=True,
            ),
            _PlacedStage(self._infer, "cpu", stateful=False, network=True),
        ]
        if self.config.tracker.kind == "iou":
            placed.append(_PlacedStage(self._tracker(), "cpu", stateful=True))
        late = stream.on_miss == "deliver_late"
        deliver = Deliver(self.outlet, self.clock, late=late)
        placed.append(_PlacedStage(deliver, "cpu", stateful=True))
        for each in placed:
            self._closers.callback(each.stage.close)
        groups = _groups(placed, fuse=self.config.scheduler.fuse)
        return StreamPlan(
            self._spec(stream, source, groups),
            source,
            tuple(tuple(each.stage for each in group) for group in groups),
            stream.deadline_ns,
            Pace(stream.source.pace),
        )

    def _tracker(self) -> IouTracker:
        tracker = self.config.tracker
        return IouTracker(tracker.iou, tracker.max_age_ns, tracker.min_hits)

    def _spec(
        self,
        stream: StreamConfig,
        source: Source,
        groups: Sequence[Sequence[_PlacedStage]],
    ) -> StreamSpec:
        """What the scheduler must know of the stream."""
        overflow = Overflow(stream.queue.overflow)
        fast = stream.source.pace == "fast"
        return StreamSpec(
            stream.id,
            tuple(_step(group) for group in groups),
            Criticality(stream.criticality),
            OnMiss(stream.on_miss),
            stream.queue.capacity,
            overflow,
            # The queue ends where the network input is made: what a frame costs is
            # spent from there on.
            queued_steps=2,
            max_in_flight=self.config.scheduler.max_in_flight,
            credits=overflow is Overflow.BLOCK or fast,
            # A camera's stamps are checked. Those of a recording are made here, from
            # one clock, and cannot be wrong.
            deadline_ns=stream.deadline_ns if source.info.live else 0,
            # As fast as it goes is not the rate at which it was recorded.
            period_ns=0 if fast else _interval_ns(source.info.fps),
            weight=stream.weight,
            contract=stream.contract,
            mode=Mode(stream.mode),
            min_interval_ns=_interval_ns(stream.max_rate),
            min_service_ns=_or(stream.min_service_ns, 0),
        )

    # --- running it -----------------------------------------------------------------

    def warnings(self) -> list[str]:
        """What the model card and the sources had to assume or repair so far."""
        of_sources = (
            f"{stream.id}: {text}"
            for stream, source in zip(self.config.streams, self._sources, strict=True)
            for text in source.warnings
        )
        return [*self._card_warnings, *of_sources]

    def threads(self) -> dict[str, int]:
        """Threads that run stages, and those that each library may use for one call."""
        info = self.engine.info
        return {
            "workers": sum(self.resources.values()),
            "sources": len(self._sources),
            "opencv": opencv_threads(),
            "decoder": DECODE_THREADS,
            "inference": info.threads_per_request,
            "inference_requests": info.requests,
        }

    def warm_up(self) -> None:
        """Run every inference request a few times on an empty image."""
        slot = self._ring.lend()
        for _ in range(WARM_UP_INFERENCES):
            for request in range(self.resources["cpu"]):
                self.engine.infer(slot.array[None], request)
        slot.give_back()

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the runtime and close everything; calling it again does nothing."""
        stuck = self.runtime.stop(self.config.run.stop_within_ns / 1e9)
        self.outlet.close()
        if stuck:
            # What a stuck thread still uses must not be pulled away from under it.
            self._closers.pop_all()
        self._closers.close()


def _step(group: Sequence[_PlacedStage]) -> Step:
    """Stages that run as one job. What they cost is learned from the first frames."""
    first = group[0]
    return Step(
        "+".join(each.stage.name for each in group),
        first.resource,
        first.stateful,
        runs_on_track_only=not first.network,
    )


def _interval_ns(fps: float | None) -> int:
    """Time between two frames; 0 when the rate is not known."""
    return round(SECOND_NS / fps) if fps else 0


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _groups(
    placed: Sequence[_PlacedStage], *, fuse: bool
) -> list[tuple[_PlacedStage, ...]]:
    """Which stages run as one job: neighbours that agree on place and order."""
    if not fuse:
        return [(each,) for each in placed]
    alike = groupby(
        placed, key=lambda each: (each.resource, each.stateful, each.network)
    )
    return [tuple(group) for _, group in alike]


def _check_file(card: ModelCard, path: Path, precision: str) -> None:
    """The file that the user named must be the one that the card describes."""
    listed = {file.path.resolve(): file.precision for file in card.files}
    found = listed.get(path.resolve())
    if found is None:
        names = ", ".join(file.path.name for file in card.files)
        raise ModelError(f"{path}: its card describes {names} and not this file")
    if found != precision:
        raise ModelError(
            f"{path}: its card says {found}; set model.precision to {found}, "
            f"it is {precision} now"
        )


def _card_path(model: ModelConfig) -> Path:
    """Where the model's card lies: shipped, named, or beside the model."""
    if model.card is not None:
        return Path(model.card)
    if model.path in zoo.names():
        return zoo.card_path(model.path)
    path = Path(model.path)
    if path.suffix != ".onnx":
        known = ", ".join(zoo.names())
        raise ConfigError(
            "",
            "model.path",
            f"{model.path!r} is neither an .onnx file nor one of {known}",
        )
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    card = path.with_suffix(".yaml")
    if not card.exists():
        raise ModelError(
            f"{path}: has no model card; write {card.name} beside it or name one with "
            f"model.card (docs/models.md shows how)"
        )
    return card


def stage_names(config: Config) -> list[str]:
    """The stages that a frame will meet, in order."""
    track = ["track"] if config.tracker.kind == "iou" else []
    return ["decode", "convert", "infer", *track, "deliver"]
