"""Opening a sink by the name of its kind."""

from collections.abc import Sequence
from pathlib import Path

from edgepipe.errors import ConfigError
from edgepipe.pipeline.stage import Sink
from edgepipe.stages.sinks.null import NullSink
from edgepipe.stages.sinks.per_stream import MARK

ONE_FILE_PER_STREAM = ("mot", "coco", "video")
"""Kinds whose format has no place for the id of the stream."""


def open_sink(
    kind: str,
    *,
    path: Path | None,
    class_names: Sequence[str],
    codec: str = "vp9",
    several_streams: bool = False,
    name: str | None = None,
) -> Sink:
    """Open one sink; the libraries that it needs are imported here.

    Args:
        kind: ``jsonl``, ``mot``, ``coco``, ``video`` or ``null``.
        path: File to write, replaced if it exists; folders are made. ``{stream}`` in
            it gives each stream a file of its own. Ignored by ``null``.
        class_names: Names by class_id.
        codec: ``vp9`` or ``mpeg4``; of ``video`` only.
        several_streams: Whether frames of more than one stream will come.
        name: Unique name of the sink; the kind if None.

    Raises:
        ConfigError: The kind is unknown, or the path cannot be written.
    """
    name = name or kind
    if kind == "null":
        return NullSink(name)
    where = f"sinks.{name}.path"
    if path is None:
        raise ConfigError("", where, f"a sink of kind {kind!r} needs a path")
    if several_streams and kind in ONE_FILE_PER_STREAM and MARK not in str(path):
        problem = (
            f"{path} needs {MARK} in it: each stream gets a {kind} file of its own"
        )
        raise ConfigError("", where, problem)
    try:
        return _open(kind, path, class_names, codec, name)
    except OSError as error:
        problem = f"cannot write {error.filename or path}: {error.strerror}"
        raise ConfigError("", where, problem) from error


def _open(
    kind: str, path: Path, class_names: Sequence[str], codec: str, name: str
) -> Sink:
    if kind == "jsonl":
        from edgepipe.stages.sinks.jsonl import JsonlSink

        return JsonlSink(path, class_names, name)
    if kind == "mot":
        from edgepipe.stages.sinks.mot import MotSink

        return MotSink(path, name)
    if kind == "coco":
        from edgepipe.stages.sinks.coco import CocoSink

        return CocoSink(path, class_names, name)
    if kind == "video":
        from edgepipe.stages.sinks.video import VideoSink
        from edgepipe.stages.sinks.video_file import CODECS

        if codec not in CODECS:
            raise ConfigError("", f"sinks.{name}.codec", f"unknown codec {codec!r}")
        return VideoSink(path, class_names, codec, name)
    raise ConfigError("", f"sinks.{name}.kind", f"unknown kind {kind!r}")
