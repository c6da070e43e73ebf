"""What ``edgepipe record`` does: open, record, tell."""

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import edgepipe
from edgepipe.commands.output import print_json, say
from edgepipe.commands.signals import Signals
from edgepipe.errors import ConfigError, InputError
from edgepipe.stages.recordings.library import need
from edgepipe.stages.sources.open import LIVE, open_source, scheme_of
from edgepipe.stages.sources.open_live import LiveOptions
from edgepipe.telemetry.clock import MonotonicClock

if TYPE_CHECKING:
    from edgepipe.stages.recordings.recorder import Account, Input, Recorder
    from edgepipe.stages.recordings.segments import Segments

log = logging.getLogger("edgepipe")

CLOCKS = "edgepipe.clocks"
"""Name of the file's metadata that map the monotonic clock to the time of day."""
_CONFIG_ENDINGS = (".yaml", ".yml")
_OTHER_FILES = frozenset(
    (".avi", ".bag", ".db3", ".mkv", ".mov", ".mp4", ".ts", ".webm")
)
_ODD = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Order:
    """What the user asked for."""

    sources: Sequence[str]
    """One configuration, or sources."""
    output: str
    duration_ns: int | None
    most_bytes: int | None
    keep_free: int
    raw: bool
    as_json: bool
    signals: Signals


class _Named(NamedTuple):
    stream: str
    uri: str
    fps: float | None
    live: LiveOptions


def record(order: Order) -> int:
    """Record until the sources end, the time is up or a signal comes.

    Returns the exit code: 0; 1 when a source failed or writing had to stop; 130 or 143
    after a signal.

    Raises:
        EdgepipeError: Nothing was recorded: a source or the output cannot be opened.
    """
    need("mcap", "record")
    from edgepipe.stages.recordings.recorder import Recorder

    named = _named(order.sources)
    output = Path(order.output)
    is_file = output.suffix.lower() == ".mcap"
    if is_file and output.exists():
        raise InputError(f"{output}: is there already, and is not written over")
    if output.suffix.lower() in _OTHER_FILES and not output.is_dir():
        text = "recordings are MCAP: name a file that ends in .mcap, or a folder"
        raise InputError(f"{output}: {text}")
    clock = MonotonicClock()
    with ExitStack() as opened:
        monotonic_ns, wall_ns = clock.now_ns(), time.time_ns()
        inputs, missing = _open(order, named, opened, wall_ns - monotonic_ns)
        live = any(each.source.info.live for each in inputs)
        clocks = {"monotonic_ns": str(monotonic_ns), "wall_ns": str(wall_ns)}
        segments = _segments(order, inputs, {CLOCKS: clocks} if live else {}, is_file)
        for each in inputs:
            info = each.source.info
            size = f"{info.width} x {info.height}"
            _say(order, f"stream {each.stream}: {size}, {each.kept.words}")
        where = output if is_file else segments.folder
        order.signals.running = True
        until = order.duration_ns
        endless = "; Ctrl-C ends it" if live and until is None else ""
        _say(order, f"recording to {where}{endless}")
        recorder = Recorder(inputs, segments, clock)
        recorder.run(
            lambda: order.signals.received is not None,
            None if until is None else clock.now_ns() + until,
        )
    return _report(order, recorder, segments, where, missing)


def _open(
    order: Order, named: Sequence[_Named], opened: ExitStack, ahead_ns: int
) -> tuple[list["Input"], list[str]]:
    """The sources, and the cameras that are not there and cost the others nothing."""
    from edgepipe.stages.recordings.kept_stream import keep
    from edgepipe.stages.recordings.recorder import Input

    inputs: list[Input] = []
    missing: list[str] = []
    for stream, uri, fps, options in named:
        # What there is to record is only known from the first picture.
        live = replace(options, required=True)
        try:
            source = open_source(uri, fps=fps, live=live)
        except InputError as error:
            if scheme_of(uri) not in LIVE or len(named) == 1:
                raise
            log.error("stream %s: is not recorded: %s", stream, error)
            missing.append(stream)
            continue
        opened.callback(source.close)
        is_live = source.info.live
        kept = keep(
            source,
            stream,
            clock="wall" if is_live else "media",
            raw=order.raw,
            ahead_ns=ahead_ns if is_live else 0,
        )
        inputs.append(Input(stream, source, kept))
    if not inputs:
        raise InputError("none of the cameras is there")
    return inputs, missing


def _segments(
    order: Order,
    inputs: Sequence["Input"],
    metadata: Mapping[str, Mapping[str, str]],
    is_file: bool,
) -> "Segments":
    from edgepipe.stages.recordings.segments import Limits, Segments

    output = Path(order.output)
    now = datetime.now().astimezone()
    try:
        return Segments(
            output,
            "" if is_file else now.strftime("%Y%m%d-%H%M%S"),
            [each.kept.channel for each in inputs],
            metadata,
            f"edgepipe {edgepipe.__version__}",
            Limits(order.most_bytes, order.keep_free),
        )
    except OSError as error:
        place = error.filename or output
        raise InputError(f"{place}: cannot be written: {error.strerror}") from error


def _named(sources: Sequence[str]) -> list[_Named]:
    """The streams to record, each with an id of its own."""
    from edgepipe.assemble import live_options
    from edgepipe.configs import load

    if any(each.lower().endswith(_CONFIG_ENDINGS) for each in sources):
        if len(sources) > 1:
            problem = "one configuration, or sources, and not both"
            raise ConfigError("record", "", problem)
        streams = load.read(sources[0], (), os.environ).config.streams
        return [
            _Named(s.id, s.source.uri, s.source.fps, live_options(s.source))
            for s in streams
        ]
    found: dict[str, _Named] = {}
    for uri in sources:
        name = base = _name(uri)
        number = 2
        while name in found:
            name, number = f"{base}-{number}", number + 1
        found[name] = _Named(name, uri, None, LiveOptions())
    return list(found.values())


def _name(uri: str) -> str:
    """A short id for a source, without what an address may keep secret."""
    scheme, colon, rest = uri.partition(":")
    if colon and scheme in ("synthetic", "rtsp", "rtsps", "csi"):
        return scheme
    path = (rest if colon and not Path(uri).exists() else uri).partition("?")[0]
    return _ODD.sub("_", Path(path).stem).strip("_.") or "stream"


def _say(order: Order, text: str) -> None:
    say(text, as_json=order.as_json)


def _report(
    order: Order,
    recorder: "Recorder",
    segments: "Segments",
    where: Path,
    missing: Sequence[str],
) -> int:
    """Tell what was recorded; the exit code."""
    accounts = recorder.accounts
    document = {
        "path": str(where),
        "failure": recorder.failure or None,
        "missing": list(missing),
        "deleted_files": segments.deleted,
        "streams": {stream: asdict(each) for stream, each in accounts.items()},
    }
    if order.as_json:
        print_json(document)
    for stream, each in accounts.items():
        _say(order, f"stream {stream}: {_words(each)}")
    if segments.deleted:
        _say(order, f"{segments.deleted} older files were deleted to make room")
    if recorder.failure:
        _say(order, f"recording stopped: {recorder.failure}")
    if order.signals.received is not None:
        return 128 + order.signals.received
    failed = any(each.state == "failed" for each in accounts.values())
    full = bool(recorder.failure) and not segments.is_bound
    return 1 if failed or full or missing else 0


def _words(account: "Account") -> str:
    """What became of a stream's frames."""
    each = account
    words = [f"{each.messages} of {each.frames} frames, {each.bytes / 1e6:.1f} MB"]
    words += [f"{each.damaged} damaged"] if each.damaged else []
    words += [f"{each.lost} lost: the disk is too slow"] if each.lost else []
    words += [f"{n} x {kind}" for kind, n in sorted(each.events.items())]
    words += [each.state if not each.detail else f"{each.state}: {each.detail}"]
    return ", ".join(words)
