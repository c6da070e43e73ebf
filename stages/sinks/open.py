"""Opening a sink by the name of its kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgepipe.pipeline.stage import Sink
from edgepipe.stages.recordings.library import need
from edgepipe.stages.sinks.null import NullSink


def open_sink(
    kind: str,
    *,
    path: Path | None,
    class_names: Sequence[str],
    codec: str = "vp9",
    pictures: bool = True,
    origins: Mapping[str, int | None] | None = None,
    name: str | None = None,
) -> Sink:
    """Open one sink; the libraries that it needs are imported here.

    Args:
        kind: ``jsonl``, ``mot``, ``coco``, ``video``, ``mcap`` or ``null``.
        path: File to write, replaced if it exists; folders are made. ``{stream}`` in
            it gives each stream a file of its own. Ignored by ``null``.
        class_names: Names by class_id.
        codec: ``vp9`` or ``mpeg4``; of ``video`` only.
        pictures: Whether pictures are written beside the boxes; of ``mcap`` only.
        origins: By stream, what media time 0 is on its recording's clock, None for a
            camera; of ``mcap`` only.
        name: Unique name of the sink; the kind if None.

    Raises:
        ValueError: The kind is unknown, or needs a path and has none.
        OSError: The path cannot be written.
    """
    name = name or kind
    if kind == "null":
        return NullSink(name)
    if path is None:
        raise ValueError(f"a sink of kind {kind!r} needs a path")
    if kind == "mcap":
        need("mcap", f"a sink of kind {kind}")
        from edgepipe.stages.sinks.mcap import McapSink

        return McapSink(path, class_names, origins or {}, pictures=pictures, name=name)
    return _open(kind, path, class_names, codec, name)


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
            raise ValueError(f"unknown codec {codec!r}")
        return VideoSink(path, class_names, codec, name)
    raise ValueError(f"unknown kind of sink {kind!r}")
