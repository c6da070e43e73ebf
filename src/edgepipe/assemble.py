"""From a configuration to a running pipeline: the module that knows every folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

from edgepipe.classifiers import Classifiers
from edgepipe.configs.ladder import FULL, RungPlan, rungs
from edgepipe.configs.load import read
from edgepipe.configs.schema import (
    AUTO,
    Config,
    PromisesConfig,
    SourceConfig,
    StreamConfig,
)
from edgepipe.errors import ConfigError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.networks import INFERENCE_THREADS, Networks
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.placement import Placement
from edgepipe.pipeline.results import CAPACITY, Results, WhenFull, run
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Reducing, Source, SourceInfo
from edgepipe.pipeline.stage import Sink, Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import (
    PERMILLE,
    Criticality,
    Mode,
    OnMiss,
    Overflow,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.outcome import TRACK_ONLY
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.stages.decode import Decode
from edgepipe.stages.deliver import Deliver, Outlet
from edgepipe.stages.native_threads import (
    keep_opencv_single_threaded,
    opencv_threads,
)
from edgepipe.stages.sinks.open import open_sink
from edgepipe.stages.sinks.per_stream import path_for
from edgepipe.stages.sinks.places import why_not
from edgepipe.stages.sources.life import Patience
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.open_live import LiveOptions
from edgepipe.stages.track import IouTracker
from edgepipe.telemetry.clock import Clock, MonotonicClock
from edgepipe.telemetry.records import FrameRecord

T = TypeVar("T")

SECOND_NS = 10**9

SHOWING = frozenset({"mcap", "video"})
"""Kinds of sinks that look at pictures."""

DECODE_THREADS = INFERENCE_THREADS
"""For one frame, as for inference."""


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
        self._results = next((s for s in sinks if isinstance(s, Results)), None)
        self.clock: Clock = clock if clock is not None else MonotonicClock()
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
        self.rungs = rungs(
            [entry.model_dump() for entry in self.config.scheduler.ladder],
            self.config.model.batch_max,
        )
        """What frames are worked on, best quality first; one rung without a ladder."""
        self.networks = Networks(
            self.config.model,
            self.rungs,
            slots=slots,
            in_flight=self.config.scheduler.max_in_flight
            * len(self.config.all_streams),
        )
        self._closers.callback(self.networks.close)
        self.classifiers = Classifiers(
            self.config.classifiers,
            self.networks.full.card.class_names,
            slots=slots,
            gate=self.config.model.gate,
        )
        self._closers.callback(self.classifiers.close)
        self.card: ModelCard = self.networks.full.card
        self.engine: Engine = self.networks.full.engine
        if not self._shows_pictures(sinks):
            for source in self._sources:
                if isinstance(source, Reducing):
                    source.reduce_to(self.networks.least_size)
        self.outlet = Outlet([*self._open_sinks(folder), *sinks])
        self._closers.callback(self.outlet.close)
        self.plans = [
            self._plan(stream, each, source)
            for stream, source in zip(self.config.streams, self._sources, strict=True)
            for each in (stream, *stream.branches)
        ]
        resources = [Resource(name, slots) for name, slots in self.resources.items()]
        scheduler = Scheduler(
            [plan.spec for plan in self.plans],
            resources,
            self.policy,
        )
        run = self.config.run
        self.runtime = Runtime(
            self.plans,
            scheduler,
            resources,
            self.clock,
            on_record,
            hang_after_ns=run.hang_after_ns,
            placements={
                name: Placement(threads.cpus or (), threads.realtime)
                for name, threads in run.placement
            },
        )

    def _open_source(self, stream: StreamConfig) -> Source:
        source = open_source(
            stream.source.uri,
            loop=stream.source.loop,
            fps=stream.source.fps,
            decode_threads=DECODE_THREADS,
            live=live_options(stream.source),
            decoder=stream.source.decoder,
        )
        self._closers.callback(source.close)
        return source

    @property
    def policy(self) -> Policy:
        """The rules that the scheduler follows."""
        name = self.config.scheduler.policy
        if name == AUTO:
            name = "slack+ladder" if self.config.scheduler.ladder else "slack"
        return BY_NAME[name]

    def _shows_pictures(self, sinks: Sequence[Sink]) -> bool:
        """Whether anybody but the networks may look at pictures.

        What a program's own sinks do with them nobody knows.
        """
        shown = any(sink.kind in SHOWING for sink in self.config.sinks)
        return shown or bool(sinks) or bool(self.classifiers.stages)

    def _open_sinks(self, folder: Path) -> list[Sink]:
        sinks: list[Sink] = []
        origins = self._origins()
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
                    pictures=getattr(config, "pictures", True),
                    origins=origins,
                )
            except OSError as error:
                problem = f"cannot write {error.filename or path}: {error.strerror}"
                raise ConfigError("", where, problem) from error
            # Until the outlet takes them over; closing twice does no harm.
            self._closers.callback(sink.close)
            sinks.append(sink)
        return sinks

    def _origins(self) -> dict[str, int | None]:
        """What media time 0 is on the clock of each stream's recording."""
        return {
            each.id: None if source.info.live else source.info.origin_ns
            for stream, source in zip(self.config.streams, self._sources, strict=True)
            for each in (stream, *stream.branches)
        }

    def _check_place(self, where: str, kind: str, path: Path, folder: Path) -> None:
        inputs = [
            Path(stream.source.uri.removeprefix("file:"))
            for stream in self.config.streams
        ]
        for stream in self.config.all_streams:
            problem = why_not(kind, path_for(path, stream.id), folder, inputs)
            if problem is not None:
                raise ConfigError("", where, problem)

    def _plan(
        self, stream: StreamConfig, promises: PromisesConfig, source: Source
    ) -> StreamPlan:
        """The stages of a stream or of one of its branches, in the order of a frame."""
        is_branch = promises is not stream
        full = _or(promises.variant, FULL)
        convert, infer = self.networks.convert(full), self.networks.infer(full)
        placed = [
            _PlacedStage(convert, "cpu", stateful=False, network=True),
            _PlacedStage(infer, "cpu", stateful=False, network=True),
        ]
        placed += [
            _PlacedStage(stage, "cpu", stateful=False, network=True)
            for name, stage in self.classifiers.stages.items()
            if promises.classifiers is None or name in promises.classifiers
        ]
        if not is_branch:
            # Where late results are wanted, none is given up to be in time.
            wanted = [each.on_miss for each in (stream, *stream.branches)]
            sheds = "deliver_late" not in wanted
            decode = Decode(source, self.clock.now_ns, sheds=sheds)
            placed.insert(0, _PlacedStage(decode, "cpu", stateful=True))
        if self.config.tracker.kind == "iou":
            placed.append(_PlacedStage(self._tracker(), "cpu", stateful=True))
        late = promises.on_miss == "deliver_late"
        deliver = Deliver(self.outlet, self.clock, late=late)
        placed.append(_PlacedStage(deliver, "cpu", stateful=True))
        for each in placed:
            self._closers.callback(each.stage.close)
        groups = _groups(
            placed,
            fuse=self.config.scheduler.fuse,
            # What was made for one network must not meet another: the rung of a frame
            # may change between two jobs.
            fuse_network=len(self.rungs) > 1 and len(self.networks.by_variant) > 1,
        )
        return StreamPlan(
            self._spec(stream, promises, source, groups),
            source,
            tuple(tuple(each.stage for each in group) for group in groups),
            promises.deadline_ns,
            Pace(stream.source.pace),
            speed=stream.source.speed,
            branch_of=stream.id if is_branch else None,
        )

    def _tracker(self) -> IouTracker:
        tracker = self.config.tracker
        return IouTracker(
            tracker.iou,
            tracker.max_age_ns,
            tracker.min_hits,
            track_only_max_age_ns=tracker.track_only_max_age_ns,
        )

    def _spec(
        self,
        stream: StreamConfig,
        promises: PromisesConfig,
        source: Source,
        groups: Sequence[Sequence[_PlacedStage]],
    ) -> StreamSpec:
        """What the scheduler must know of a stream or branch."""
        is_branch = promises is not stream
        overflow = Overflow(promises.queue.overflow)
        fast = stream.source.pace == "fast"
        costs_permille = self.networks.costs_permille(_or(promises.variant, FULL))
        # A camera's stamps are checked. Those of a recording are made here, from one
        # clock, and cannot be wrong; those of a branch have been checked.
        is_checked = source.info.live and not is_branch
        return StreamSpec(
            promises.id,
            tuple(self._step(promises, group) for group in groups),
            Criticality(promises.criticality),
            OnMiss(promises.on_miss),
            promises.queue.capacity,
            overflow,
            # The queue ends where the network input is made: what a frame costs is
            # spent from there on.
            queued_steps=1 if is_branch else 2,
            max_in_flight=self.config.scheduler.max_in_flight,
            credits=not is_branch and (overflow is Overflow.BLOCK or fast),
            deadline_ns=promises.deadline_ns if is_checked else 0,
            # As fast as it goes is not the rate at which it was recorded.
            period_ns=0 if fast else _period_ns(source.info, stream.source),
            weight=promises.weight,
            contract=promises.contract,
            mode=Mode(promises.mode),
            min_interval_ns=_interval_ns(promises.max_rate),
            min_service_ns=_or(promises.min_service_ns, 0),
            ladder=_ladder(self.rungs, costs_permille, groups),
        )

    def _step(self, stream: PromisesConfig, group: Sequence[_PlacedStage]) -> Step:
        """Stages that run as one job. What they cost is learned from the first frames.

        Where there are no batches, the key lets rungs that run the same variant learn
        from each other; with batches all streams do.
        """
        first = group[0]
        step = Step(
            "+".join(each.stage.name for each in group),
            first.resource,
            first.stateful,
            runs_on_track_only=not first.network,
        )
        networks = self.networks
        if not (networks.is_profiled and any(e.stage.name == "infer" for e in group)):
            return step
        full = _or(stream.variant, FULL)
        if networks.batch_max == 1:
            return replace(step, batch_key=f"{self.card.name} of {stream.id}")
        return replace(
            step,
            batch_key=f"{self.card.name} {self.config.model.precision} {full}",
            batch_max=networks.batch_max,
            batch_curve=networks.batch_curve(full),
        )

    # --- running it -----------------------------------------------------------------

    def warnings(self) -> list[str]:
        """What the model card and the sources had to assume or repair so far."""
        of_sources = (
            f"{stream.id}: {text}"
            for stream, source in zip(self.config.streams, self._sources, strict=True)
            for text in (*source.warnings, *_too_old(source.info, stream.deadline_ns))
        )
        return [*self.networks.warnings, *self.classifiers.warnings, *of_sources]

    def values(self) -> dict[str, float]:
        """What a result is worth by its frame's variant; empty without a ladder."""
        if len(self.rungs) == 1:
            return {}
        # One variant for all rungs: the least that such a frame can be worth.
        unseen = [rung.track_only_value for rung in self.rungs if rung.track_only > 1]
        return {rung.name: rung.value for rung in self.rungs} | (
            {TRACK_ONLY: min(unseen)} if unseen else {}
        )

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
        """Run every network a few times, so that the first frame finds it warm."""
        if not self.networks.is_profiled:
            self.networks.warm_up()
        self.classifiers.warm_up()

    @classmethod
    def from_config(
        cls,
        config: Config | str,
        overrides: Sequence[str] = (),
        *,
        folder: Path | None = None,
        capacity: int = CAPACITY,
        when_full: Literal["block", "drop_oldest"] = "block",
    ) -> "Pipeline":
        """A pipeline whose results are taken with a ``for`` loop over it.

        Args:
            config: A checked one, the path of a file, or the name of a packaged one.
            overrides: ``streams[0].deadline=50ms`` and the like, for a path or name.
            folder: Where relative paths of sinks go; None: the current directory.
            capacity: Results that may wait for the loop.
            when_full: What happens to further ones: their streams wait (``block``), or
                the oldest result is forgotten (``drop_oldest``).

        Raises:
            EdgepipeError: Something cannot be opened, or is wrong in the configuration.
        """
        if isinstance(config, str):
            config = read(config, overrides).config
        results = Results(capacity, WhenFull(when_full))
        return cls(config, folder or Path(), sinks=[results])

    def __iter__(self) -> Iterator[Frame]:
        """Warm up, start, and give each delivered frame; leaving the loop stops it.

        Raises:
            StoppedError: It has run before.
        """
        if self._results is None:
            raise TypeError("only a pipeline made by from_config has results to give")
        self.warm_up()
        return run(self._results, self.runtime, self.config.run.stop_within_ns / 1e9)

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
        """Stop the runtime and close everything; calling it again does nothing.

        In a copy of the process made by ``fork`` nothing is touched: it all belongs to
        the process that opened it.
        """
        if self.runtime.is_inherited:
            return
        stuck = self.runtime.stop(self.config.run.stop_within_ns / 1e9)
        self.outlet.close()
        if stuck:
            # What a stuck thread still uses must not be pulled away from under it.
            self._closers.pop_all()
        self._closers.close()


def live_options(config: SourceConfig) -> LiveOptions:
    """What is asked of a camera; of a recording nobody looks at it."""
    patience = Patience(
        connect_ns=config.connect_timeout_ns,
        grace_ns=config.start_timeout_ns,
        stall_after_ns=config.stall_after_ns,
        reconnect_after_ns=config.reconnect_after_ns,
        frozen_after_ns=config.frozen_after_ns,
        retry_min_ns=config.retry_min_ns,
        retry_max_ns=config.retry_max_ns,
        retries=config.retries,
    )
    return LiveOptions(
        patience, config.transport, config.trust_clock, config.decoder, config.required
    )


def _ladder(
    plans: Sequence[RungPlan],
    costs_permille: Mapping[str, int],
    groups: Sequence[Sequence[_PlacedStage]],
) -> tuple[Rung, ...]:
    """The rungs as the scheduler sees them: numbers for each step."""
    infers = [any(each.stage.name == "infer" for each in group) for group in groups]
    return tuple(
        Rung(
            plan.name,
            _permille(plan.value),
            tuple(costs_permille[plan.variant] if i else PERMILLE for i in infers),
            plan.stride,
            plan.track_only,
            _permille(plan.track_only_value),
            plan.batch_max,
        )
        for plan in plans
    )


def _permille(share: float) -> int:
    return max(1, round(share * PERMILLE))


def _period_ns(info: SourceInfo, config: SourceConfig) -> int:
    """Time between two frames as they come; a camera's speed is its own."""
    period_ns = _interval_ns(info.fps)
    return period_ns if info.live else round(period_ns / config.speed)


def _interval_ns(fps: float | None) -> int:
    """Time between two frames; 0 when the rate is not known."""
    return round(SECOND_NS / fps) if fps else 0


def _too_old(info: SourceInfo, deadline_ns: int) -> list[str]:
    """Whether frames of a camera come too old for their deadline, in a sentence."""
    if not info.held_ns or info.held_ns < deadline_ns:
        return []
    held_ms, deadline_ms = info.held_ns / 1e6, deadline_ns / 1e6
    return [
        f"no frame can be in time: one comes {held_ms:.0f} ms old at least, because it"
        f" is handed over when the next begins; a deadline of {deadline_ms:g} ms is"
        " too short"
    ]


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _groups(
    placed: Sequence[_PlacedStage], *, fuse: bool, fuse_network: bool
) -> list[tuple[_PlacedStage, ...]]:
    """Which stages run as one job: neighbours that agree on place and order."""

    def key(item: tuple[int, _PlacedStage]) -> tuple[object, ...]:
        number, each = item
        joins = fuse or (fuse_network and each.network)
        return each.resource, each.stateful, each.network, -1 if joins else number

    alike = groupby(enumerate(placed), key=key)
    return [tuple(each for _, each in group) for _, group in alike]


def stage_names(config: Config) -> list[str]:
    """The stages that a frame may meet, in order."""
    second = [f"classify-{each.name}" for each in config.classifiers]
    track = ["track"] if config.tracker.kind == "iou" else []
    return ["decode", "convert", "infer", *second, *track, "deliver"]
