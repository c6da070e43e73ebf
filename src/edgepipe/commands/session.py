"""One run from its configuration to its folder: what ``run`` and ``bench`` share."""

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from edgepipe.assemble import Pipeline, stage_names
from edgepipe.commands.device import (
    BENCH_IDLE_NS,
    Window,
    measure_idle,
    open_monitor,
    power_line,
    wait_for_readings,
)
from edgepipe.commands.folder import make_folder
from edgepipe.commands.output import print_json, say
from edgepipe.commands.progress import Progress
from edgepipe.commands.signals import Signals
from edgepipe.configs.effective import dump_yaml
from edgepipe.configs.load import LoadedConfig
from edgepipe.configs.schema import Config, PromisesConfig
from edgepipe.configs.telemetry_schema import TelemetryConfig
from edgepipe.errors import EdgepipeError
from edgepipe.pipeline.process import Housekeeping
from edgepipe.telemetry.board_facts import board_facts
from edgepipe.telemetry.clock import Clock, MonotonicClock
from edgepipe.telemetry.device_log import DeviceLog, read_device
from edgepipe.telemetry.environment import collect_environment, hide_credentials
from edgepipe.telemetry.frame_log import FRAMES, read_frames
from edgepipe.telemetry.monitor import DeviceMonitor
from edgepipe.telemetry.process import ProcessSampler
from edgepipe.telemetry.recorder import Recorder
from edgepipe.telemetry.records import FrameRecord, RecorderFacts
from edgepipe.telemetry.report import render_report
from edgepipe.telemetry.run_facts import (
    DepthFacts,
    EventFacts,
    MoveFacts,
    RunFacts,
    StreamFacts,
)
from edgepipe.telemetry.run_folder import RunFolder
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.sensors.tree import Tree
from edgepipe.telemetry.summary import build_summary
from edgepipe.telemetry.text_summary import render_text

log = logging.getLogger("edgepipe")

TICK_S = 0.1
"""How often the main thread looks at the clock; no frame waits for it."""
SAMPLE_NS = 1_000_000_000
MOST_LOG_BYTES = 256 << 20
"""A longer frame log is not read for the report: 770,000 frames, 7 hours at 30 fps."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    command: str
    loaded: LoadedConfig
    warm_up_ns: int
    duration_ns: int | None
    """Length of the measured part; None until the sources end."""
    as_json: bool
    signals: Signals
    preflight: Sequence[str] = ()
    """Why figures of this machine are not to be trusted, found out before."""


def run_session(request: Request) -> int:
    """Run the pipeline, write the run folder, print the summary.

    Returns the exit code: 0; 1 when the verdict is INVALID; 130 or 143 after a signal.
    """
    config = request.loaded.config
    started = datetime.now().astimezone()
    folder = _run_folder(config, request.command, started)
    try:
        folder.write_config(dump_yaml(request.loaded.effective))
        keeper = _Keeper(config, folder)
        pipeline, device = _start(request, folder, keeper)
    except BaseException:  # re-raised: a run that never began leaves nothing behind
        folder.discard()
        raise
    with pipeline:
        facts = _measure(request, pipeline, device, keeper, started)
    summary = build_summary(facts, keeper.statistics)
    written = _write(folder, facts, summary)
    written &= _print(request, summary, folder)
    if request.signals.received is not None:
        return 128 + request.signals.received
    return 0 if written and summary["verdict"] == "VALID" else 1


def _start(
    request: Request, folder: RunFolder, keeper: "_Keeper"
) -> tuple[Pipeline, DeviceMonitor]:
    """Open pipeline and sensors and bring them to the point of the first frame."""
    config = request.loaded.config
    with ExitStack() as opened:
        opened.callback(keeper.recorder.close)
        pipeline = opened.enter_context(
            Pipeline(config, folder.path, keeper.add, keeper.clock)
        )
        device = keeper.device = _open_device(config, pipeline, folder, keeper.clock)
        opened.callback(device.stop)
        _announce(request, pipeline, device)
        pipeline.warm_up()
        request.signals.running = True
        _say(request, f"run folder {folder.path}")
        opened.pop_all()
    return pipeline, device


def _open_device(
    config: Config, pipeline: Pipeline, folder: RunFolder, clock: Clock
) -> DeviceMonitor:
    runtime, resources = pipeline.runtime, pipeline.resources

    def on_clock(part: str, permille: int) -> None:
        if part in resources:
            runtime.clock_changed(part, permille)

    periods_ns = {plan.spec.period_ns for plan in pipeline.plans}
    frame_rates = [1e9 / each for each in periods_ns if each]
    return open_monitor(
        config.telemetry.sensors, folder.device, clock, frame_rates, on_clock
    )


def _write(folder: RunFolder, facts: RunFacts, summary: Mapping[str, Any]) -> bool:
    """Write what the run leaves behind, the most important first.

    Returns whether all of it could be written. A full disk costs the rest of the
    folder, not the numbers: those are printed all the same.
    """
    try:
        folder.write_summary(summary)
        folder.write_environment(facts.environment)
        folder.write_report(_report(summary, folder, facts.measured_from_ns))
    except EdgepipeError as error:
        log.error("%s", error)
        return False
    return True


def _run_folder(config: Config, command: str, started: datetime) -> RunFolder:
    """The run's folder where the configuration says."""
    default = config.telemetry.dir == TelemetryConfig().dir
    return make_folder(
        Path(config.telemetry.dir),
        command,
        started,
        instead="see telemetry.dir" if default else None,
    )


class _Keeper:
    """Takes each frame's record: into the statistics and into the log."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        self.clock = MonotonicClock()
        self.statistics = RunStatistics(
            config.telemetry.samples,
            [stream.id for stream in config.all_streams],
            stage_names(config),
        )
        self.recorder = Recorder(folder.frames, self.clock, FRAMES)
        self.device: DeviceMonitor | None = None
        """Set before the first frame."""

    def add(self, record: FrameRecord) -> None:
        """Called by the runtime, under its lock."""
        throttled = self.device is not None and self.device.throttled
        self.statistics.add(record, throttled=throttled)
        self.recorder.add(record)


def _report(
    summary: Mapping[str, Any], folder: RunFolder, measured_from_ns: int
) -> str:
    size = folder.frames.stat().st_size
    if size > MOST_LOG_BYTES:
        warning = f"frames.arrow has {size >> 20} MiB: too much to draw charts from"
        return render_report(summary, (), warning)
    log = read_frames(folder.frames)
    return render_report(
        summary, log.records(), log.warning, _device_log(folder), measured_from_ns
    )


def _device_log(folder: RunFolder) -> DeviceLog | None:
    """The log of the sensors, if there is one that can be drawn from."""
    path = folder.device
    if not path.exists() or path.stat().st_size > MOST_LOG_BYTES:
        return None
    return read_device(path)


def _announce(request: Request, pipeline: Pipeline, device: DeviceMonitor) -> None:
    """Say what was chosen, before it runs."""
    for warning in pipeline.warnings():
        log.warning("%s", warning)
    info = pipeline.engine.info
    _say(
        request,
        f"model {pipeline.card.name}, {info.executed_precision}, on {info.engine} "
        f"{info.version.partition('-')[0]} ({info.chosen_because})",
    )
    for stream in request.loaded.config.streams:
        _say(request, f"stream {stream.id}: {hide_credentials(stream.source.uri)}")
        for branch in stream.branches:
            _say(request, f"stream {branch.id}: branch of {stream.id}")
    _say(request, f"power {power_line(device)}")


def _say(request: Request, text: str) -> None:
    say(text, as_json=request.as_json)


def _measure(
    request: Request,
    pipeline: Pipeline,
    device: DeviceMonitor,
    keeper: _Keeper,
    started: datetime,
) -> RunFacts:
    """Run until the time is up, the sources end or a signal comes."""
    runtime = pipeline.runtime
    interval_ns = pipeline.config.run.switch_interval_ns
    keeper.recorder.start()
    device.start()
    try:
        idle = _measure_idle(request, device, pipeline.clock)
        with Housekeeping(pipeline.clock, interval_ns) as house:
            watch = _Watch(pipeline, device, house)
            runtime.start(request.warm_up_ns, request.duration_ns)
            device.begin(runtime.measure_from_ns)
            end_ns = (
                None
                if request.duration_ns is None
                else runtime.measure_from_ns + request.duration_ns
            )
            with Progress(
                request.duration_ns, pipeline, enabled=not request.as_json
            ) as bar:
                until_ns = _wait(request, end_ns, pipeline, watch, bar)
                device.end(until_ns)
                forced = _stop(pipeline)
                wait_for_readings(device, pipeline.clock, until_ns)
    finally:
        recorder = keeper.recorder.close()
        device.stop()
    pipeline.outlet.close()
    return _facts(
        request, pipeline, started, until_ns, forced, watch, keeper, recorder, idle
    )


def _measure_idle(
    request: Request, device: DeviceMonitor, clock: Clock
) -> Window | None:
    length_ns = request.loaded.config.telemetry.sensors.idle_ns
    if length_ns is None:
        length_ns = BENCH_IDLE_NS if request.command == "bench" else 0
    if device.has_power and length_ns:
        _say(request, f"measuring idle power for {length_ns / 1e9:g} s")
    signals = request.signals
    return measure_idle(device, length_ns, clock, lambda: signals.received is not None)


class _Watch:
    """What the main thread does while others work: measure, check, clean up."""

    def __init__(
        self, pipeline: Pipeline, device: DeviceMonitor, house: Housekeeping
    ) -> None:
        self._runtime = pipeline.runtime
        self.device = device
        self._house = house
        self._interval_ns = house.switch_interval_ns
        self._sampler = ProcessSampler()
        self._sampled_ns: int | None = None
        self.irregularities: list[str] = []
        """What the first check that found something found."""

    def tick(self, now_ns: int, *, measured: bool) -> None:
        """To be called each TICK_S; ``measured``: whether the warm-up is over."""
        self._house.tick(idle=not self._runtime.jobs_running)
        self.device.watch()
        if measured and (
            self._sampled_ns is None or now_ns - self._sampled_ns >= SAMPLE_NS
        ):
            self.sample(now_ns)

    def sample(self, now_ns: int) -> None:
        """Look at the process, and whether the books balance at this moment."""
        self._sampled_ns = now_ns
        self._sampler.sample(now_ns)
        if not self.irregularities:
            self.irregularities = self._runtime.irregularities()

    def process(self, delivered: int) -> dict[str, Any]:
        """The ``process`` part of a summary, for so many delivered frames."""
        collected = self._house.collections
        return {
            **self._sampler.summary(delivered),
            "gc": {
                "collections": collected.count,
                "while_busy": collected.while_busy,
                "total_ms": collected.total_ns / 1e6,
                "longest_ms": collected.longest_ns / 1e6,
            },
            "switch_interval_ms": self._interval_ns / 1e6,
            "hung_threads": len(self._runtime.replaced),
        }


def _stop(pipeline: Pipeline) -> str:
    """Drain, then stop, in the time that the configuration allows for both.

    Returns why force was needed; empty if it was not.
    """
    runtime, clock = pipeline.runtime, pipeline.clock
    within_ns = pipeline.config.run.stop_within_ns
    give_up_ns = clock.now_ns() + within_ns
    runtime.drain()
    # Some of the time is for threads to end in, and some for closing what they used.
    drained = runtime.wait(within_ns * 0.6 / 1e9)
    stuck = runtime.stop(max(0.0, (give_up_ns - clock.now_ns()) * 0.6 / 1e9))
    if stuck:
        return f"threads did not come back: {', '.join(stuck)}"
    return "" if drained else "frames were still in flight when the time was up"


def _wait(
    request: Request,
    end_ns: int | None,
    pipeline: Pipeline,
    watch: _Watch,
    bar: Progress,
) -> int:
    """Wait for the end; return the moment at which the measured part ended."""
    clock = pipeline.clock
    while True:
        ended = pipeline.runtime.wait(TICK_S)
        now_ns = clock.now_ns()
        measured = now_ns >= pipeline.runtime.measure_from_ns
        watch.tick(now_ns, measured=measured)
        bar.update(now_ns)
        due = end_ns is not None and now_ns >= end_ns
        if ended or due or request.signals.received is not None:
            if measured:
                watch.sample(now_ns)
            return now_ns if end_ns is None else min(now_ns, end_ns)


def _facts(
    request: Request,
    pipeline: Pipeline,
    started: datetime,
    until_ns: int,
    forced: str,
    watch: _Watch,
    keeper: _Keeper,
    recorder: RecorderFacts,
    idle: Window | None,
) -> RunFacts:
    card, runtime = pipeline.card, pipeline.runtime
    moves = [
        MoveFacts(
            move.at_ns,
            move.stream,
            pipeline.rungs[move.rung].name,
            move.cause,
            move.demand_permille,
        )
        for move in runtime.rung_moves
    ]
    history = [
        EventFacts(
            befallen.at_ns,
            befallen.stream,
            befallen.event.kind.value,
            befallen.event.detail,
            befallen.event.pts_ns,
            befallen.event.amount_ns,
        )
        for befallen in runtime.source_history
    ]
    return RunFacts(
        command=request.command,
        started=started,
        measured_from_ns=runtime.measure_from_ns,
        measured_until_ns=max(until_ns, runtime.measure_from_ns),
        warm_up_ns=request.warm_up_ns,
        asked_ns=request.duration_ns,
        streams=[
            _stream_facts(pipeline, stream) for stream in pipeline.config.all_streams
        ],
        sources=runtime.source_records(),
        engine=asdict(pipeline.engine.info),
        model={
            "name": card.name,
            "precision": request.loaded.config.model.precision,
            "input": [card.height, card.width],
            "licence": card.licence,
            **pipeline.networks.facts(),
            **pipeline.classifiers.facts(),
        },
        resources=pipeline.resources,
        ledger_balanced=runtime.balanced,
        forced_stop=forced,
        config_hash=request.loaded.sha256,
        environment=collect_environment(sys.argv, pipeline.threads())
        | {
            "placement": runtime.placed,
            "board": board_facts(Tree(Path(pipeline.config.telemetry.sensors.root))),
        },
        process=watch.process(keeper.statistics.delivered),
        recorder=recorder,
        sink_failures=pipeline.outlet.failures,
        stage_errors=runtime.stage_errors(),
        warnings=[*pipeline.warnings(), *watch.device.warnings],
        unrecorded=runtime.lost_records,
        irregularities=watch.irregularities,
        moves=moves,
        moves_left_out=sum(runtime.rung_changes.values()) - len(moves),
        source_events=runtime.source_events,
        source_history=history,
        preflight=request.preflight,
        device=watch.device.facts(
            (runtime.measure_from_ns, until_ns),
            None if idle is None else (idle.start_ns, idle.end_ns),
        ),
        power_required=pipeline.config.telemetry.sensors.require_power,
    )


def _stream_facts(pipeline: Pipeline, stream: PromisesConfig) -> StreamFacts:
    name = stream.id
    fates: dict[str, int] = {}
    captured = in_flight = 0
    for warm_up in (False, True):
        account = pipeline.runtime.account(name, warm_up=warm_up)
        captured += account.captured
        in_flight += account.in_flight
        counts: Mapping[str, int] = {
            "completed": account.completed,
            "late": account.late,
            **{f"dropped:{reason}": n for reason, n in account.dropped.items()},
            **{f"failed:{reason}": n for reason, n in account.failed.items()},
        }
        for fate, count in counts.items():
            fates[fate] = fates.get(fate, 0) + count
    depths = pipeline.runtime.depths(name)
    return StreamFacts(
        name,
        stream.criticality,
        stream.deadline_ns,
        captured,
        in_flight,
        fates,
        DepthFacts(
            depths.capacity,
            depths.peak_queued,
            depths.max_in_flight,
            depths.peak_in_flight,
        ),
        pipeline.values(),
    )


def _print(request: Request, summary: Mapping[str, Any], folder: RunFolder) -> bool:
    """Print the summary; return whether whoever asked for JSON can have got it.

    A reader that has gone away did so on purpose: the verdict still decides.
    """
    if request.as_json:
        return print_json(summary)
    _say(request, render_text(summary))
    _say(request, f"report   {folder.report}")
    for config in request.loaded.config.sinks:
        if path := getattr(config, "path", None):
            _say(request, f"{config.kind:<8} {folder.path / path}")
    return True
