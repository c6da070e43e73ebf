"""``edgepipe doctor``: what a source is, or what this machine is, and what follows."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from edgepipe.commands.output import print_json
from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.stages.sources.diagnose import Remark
    from edgepipe.stages.sources.examine import Examination

DEFAULT_LIVE_S = 10.0


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "doctor",
        help="examine a source, or this machine; exit 1 when something is broken",
    )
    parser.add_argument(
        "source",
        nargs="?",
        help="a file, a folder, mcap:, bag:, rtsp: and so on; without one the machine "
        "is examined, and nothing is changed",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="look at so much of it (default: all of a recording, "
        f"{DEFAULT_LIVE_S:g} s of a camera)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="of the machine: exit 1 when a bench on it could not be trusted",
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="of the machine: where its sys, proc, etc and var lie, such as those of "
        "the host in a container (default: /)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print everything as JSON on stdout"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Examine the source or the machine; return the exit code: 1 for trouble."""
    if args.source is None:
        return _machine(args)
    for option in ("strict", "root"):
        if getattr(args, option):
            problem = "it is about the machine: name no source"
            raise ConfigError(f"--{option}", "", problem)
    if args.seconds is not None and not 0 < args.seconds < 1e9:
        problem = f"expected a number of seconds above 0, got {args.seconds:g}"
        raise ConfigError("--seconds", "", problem)
    from edgepipe.stages.native_threads import keep_opencv_single_threaded
    from edgepipe.stages.sources.diagnose import remarks

    keep_opencv_single_threaded()
    found = _examine(args)
    said = remarks(found)
    if args.json:
        document = {key: _plain(value) for key, value in asdict(found).items()}
        document["remarks"] = [each._asdict() for each in said]
        if not print_json(document):
            return 1
    else:
        _print(found, said)
    if args.signals.received is not None:
        return 128 + int(args.signals.received)
    return int(any(each.is_trouble for each in said))


def _machine(args: argparse.Namespace) -> int:
    from edgepipe.commands.doctor_machine import examine_and_tell

    if args.seconds is not None:
        raise ConfigError("--seconds", "", "it is about a source: name one")
    root = Path(args.root or "/")
    if not root.is_dir():
        raise ConfigError("--root", "", f"expected a folder, got {args.root}")
    return examine_and_tell(root, as_json=args.json, strict=args.strict)


def _examine(args: argparse.Namespace) -> "Examination":
    from edgepipe.stages.sources.examine import examine, look_at_messages, look_inside
    from edgepipe.stages.sources.open import (
        LIVE,
        is_robots,
        local_path,
        open_source,
        scheme_of,
    )
    from edgepipe.telemetry.clock import MonotonicClock

    uri = args.source
    live = None
    if scheme_of(uri) in LIVE:
        from edgepipe.stages.sources.open_live import LiveOptions

        live = LiveOptions(required=True)
    source = open_source(uri, live=live)
    seconds = args.seconds
    if seconds is None and source.info.live:
        seconds = DEFAULT_LIVE_S
    if source.info.live:
        words = f"looking at it for {seconds:g} s; Ctrl-C ends that sooner"
        print(words, file=sys.stderr, flush=True)
    args.signals.running = True
    try:
        found = examine(
            source,
            MonotonicClock(),
            seconds=seconds,
            should_stop=lambda: args.signals.received is not None,
        )
    finally:
        source.close()
    scheme = scheme_of(uri)
    robots = scheme in ("mcap", "bag") or (not scheme and is_robots(uri))
    path = None if robots else local_path(uri)
    if path is not None and path.is_file():
        look_inside(path, found)
    if robots:
        from edgepipe.stages.recordings.recorded import chosen_topic
        from edgepipe.stages.sources.robots import open_recorded, place_of

        place = place_of(uri)
        recorded = open_recorded(place)
        found.topics = [
            {
                "name": t.name,
                "schema": t.schema,
                "encoding": t.encoding,
                "messages": t.messages,
            }
            for t in recorded.topics
        ]
        topic = chosen_topic(recorded, place.topic, uri)
        look_at_messages(recorded, topic, found)
        recorded.close()
    return found


def _plain(value: Any) -> Any:
    """Named tuples as mappings: JSON would keep the values only."""
    if hasattr(value, "_asdict"):
        return {key: _plain(each) for key, each in value._asdict().items()}
    if isinstance(value, dict):
        whole = cast(dict[str, Any], value)
        return {key: _plain(each) for key, each in whole.items()}
    return value


def _print(found: "Examination", said: list["Remark"]) -> None:
    info, rhythm = found.info, found.rhythm
    row = "{:<12} {}".format
    print(row("source", info.uri))
    container = found.container
    codec = info.codec
    if container is not None:
        print(row("container", container.format))
        codec += f", {container.profile}" if container.profile else ""
    print(row("codec", codec))
    size = f"{info.width} x {info.height}"
    if container is not None:
        size += f", {container.pixel_format}, range {container.colour_range}"
        size += f", matrix {container.matrix}"
    print(row("pictures", size))
    if rhythm.fps is not None:
        print(
            row(
                "rate",
                f"{rhythm.fps:.3f} fps, spread {rhythm.spread_ms:.2f} ms,"
                f" {rhythm.shortest_ms:.1f} to {rhythm.longest_ms:.1f} ms apart",
            )
        )
    print(row("length", f"{rhythm.frames} frames, {rhythm.duration_s:.2f} s"))
    structure = found.structure
    if structure is not None and structure.key_distance is not None:
        _, usual, most = structure.key_distance
        print(
            row(
                "key frames",
                f"{_each(usual)}, at most {most} apart; reorder"
                f" depth {structure.reorder_depth}",
            )
        )
    if found.decode_ms is not None:
        n, p50, p90, most_ms = found.decode_ms
        print(
            row(
                "decoding",
                f"p50 {p50:.2f}, p90 {p90:.2f}, most {most_ms:.2f} ms"
                f" each on this machine, {n} frames, one thread",
            )
        )
    for topic in found.topics:
        print(
            row(
                "topic",
                f"{topic['name']}: {topic['schema']} ({topic['encoding']}),"
                f" {topic['messages']} messages",
            )
        )
    print(row("end", ": ".join(part for part in found.end if part)))
    for each in said:
        mark = "!" if each.is_trouble else "-"
        print(f"{mark} {each.found}: {each.does}")
    if not said:
        print("nothing unusual")


def _each(frames: float) -> str:
    return "every frame" if frames == 1 else f"each {frames:g} frames"
