"""``edgepipe replay``: a recording through the pipeline, at its own pace."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgepipe.commands.arguments import load_config
from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.configs.load import LoadedConfig
    from edgepipe.stages.sources.robots import Replayable

DEFAULT_CONFIG = "default"


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "replay", help="play a recording through a pipeline, all streams on one clock"
    )
    parser.add_argument("recording", help="an MCAP file or folder, a ROS bag, a video")
    parser.add_argument(
        "-c",
        "--config",
        metavar="CONFIG",
        default=DEFAULT_CONFIG,
        help="what the recording is played through; its streams take the topics with"
        f" their ids, a single stream takes a single topic (default: {DEFAULT_CONFIG},"
        " with a stream for each topic)",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        help="play this topic only; repeatable (default: all with images)",
    )
    parser.add_argument(
        "--speed", metavar="4x", help="how many times as fast (default: 1x)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one value of the configuration; repeatable",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON on stdout"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Play until the end; return the exit code."""
    from edgepipe.commands.session import Request, run_session
    from edgepipe.stages.sources.robots import replayable

    parts = replayable(args.recording, args.topic)
    loaded = _load(args, parts)
    config = loaded.config.run
    request = Request(
        "replay",
        loaded,
        config.warm_up_ns or 0,
        config.duration_ns,
        args.json,
        args.signals,
    )
    return run_session(request)


def _load(args: argparse.Namespace, parts: Sequence["Replayable"]) -> "LoadedConfig":
    """The configuration with the recording in the place of its sources."""
    changes: list[str] = []
    count = len(parts)
    if args.config == DEFAULT_CONFIG:
        streams = [{"id": part.stream, "source": {"uri": part.uri}} for part in parts]
        changes.append(f"streams={json.dumps(streams)}")
    else:
        named = load_config(args.config, args.set).config.streams
        count = len(named)
        places = _places([each.id for each in named], parts, args.recording)
        for number, part in enumerate(places):
            uri = json.dumps(part.uri)
            changes.append(f"streams[{number}].source.uri={uri}")
            changes.append(f"streams[{number}].source.loop=false")
    if args.speed is not None:
        changes += [f"streams[{n}].source.speed={args.speed}" for n in range(count)]
    return load_config(args.config, [*changes, *args.set])


def _places(
    ids: Sequence[str], parts: Sequence["Replayable"], recording: str
) -> list["Replayable"]:
    """The part of the recording for each stream of the configuration."""
    if len(ids) == len(parts) == 1:
        return list(parts)
    by_id = {part.stream: part for part in parts}
    if missing := [each for each in ids if each not in by_id]:
        names = ", ".join(by_id)
        problem = f"stream {missing[0]} is not in {recording} (it has {names})"
        raise ConfigError("", "", problem)
    if unused := [name for name in by_id if name not in ids]:
        print(f"not played: {', '.join(unused)}", file=sys.stderr)
    return [by_id[each] for each in ids]
