"""Results as MCAP: boxes that Foxglove draws over the pictures."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame, PixelFormat
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.draw import color_of, label_of
from edgepipe.stages.recordings import foxglove
from edgepipe.stages.recordings.foxglove_schemas import schema
from edgepipe.stages.recordings.kept_stream import CLOCK, JPEG_QUALITY, topic_of
from edgepipe.stages.recordings.mcap_writer import ChannelFacts, McapWriter
from edgepipe.stages.recordings.recorded import STAMPS, STREAM
from edgepipe.stages.sinks.per_stream import PerStream

WRITE_NS = 1_000_000_000
"""How long results wait for others to be written with them."""
OBJECTS = "objects"
"""Last part of the topic with a stream's boxes."""


class _File:
    """One file and the channels in it so far."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.writer = McapWriter(path, [], {}, "edgepipe")
        self._channels: dict[str, int] = {}
        self._sequences: dict[int, int] = {}
        self._written_ns = 0

    def add(self, facts: ChannelFacts, log_ns: int, data: bytes) -> None:
        """Add a message to the channel of that topic."""
        channel = self._channels.get(facts.topic)
        if channel is None:
            channel = self.writer.add_channel(facts)
            self._channels[facts.topic] = channel
        sequence = self._sequences.get(channel, 0)
        self._sequences[channel] = sequence + 1
        self.writer.add(channel, sequence, log_ns, data)

    def write_out(self, now_ns: int) -> None:
        """Hand everything to the system once a second: a SIGKILL costs no more."""
        if now_ns - self._written_ns >= WRITE_NS:
            self._written_ns = now_ns
            self.writer.write_out()

    def close(self) -> None:
        """Complete the file."""
        self.writer.close()


class McapSink:
    """Writes ``/STREAM`` with pictures and ``/STREAM/objects`` with boxes.

    Pictures are JPEGs; boxes are foxglove.ImageAnnotations with the class, the track's
    number and the score of each object. Both have the stamp of the capture: of a
    recording, on the clock of that recording, so that the boxes also lie over its own
    pictures when both files are open; of a camera, on the wall clock.

    Args:
        path: File to write, replaced if it exists.
        class_names: Names by class_id.
        origins: By stream, what media time 0 is on its recording's clock; None: it is
            a camera's.
        pictures: Whether pictures are written, too.
        name: Unique name of the sink.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        class_names: Sequence[str],
        origins: Mapping[str, int | None],
        *,
        pictures: bool = True,
        name: str = "mcap",
    ) -> None:
        self.name = name
        self._class_names, self._origins = tuple(class_names), origins
        self._pictures = pictures
        self._ahead_ns = time.time_ns() - time.monotonic_ns()
        self._files = PerStream(path, _File)
        self._facts: dict[str, tuple[ChannelFacts, ChannelFacts]] = {}

    def write(self, frame: Frame, now_ns: int) -> None:
        """Append the objects of a frame, and its picture.

        Raises:
            OSError: They could not be written.
        """
        file = self._files.of(frame.stream)
        pictures, objects = self._facts_of(frame.stream)
        stamp_ns = self._stamp_ns(frame)
        if self._pictures and frame.picture is not None:
            gray = frame.picture.format is PixelFormat.GRAY
            image = frame.picture.planes[0] if gray else to_bgr(frame.picture)
            options = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
            data = cv2.imencode(".jpg", image, options)[1].tobytes()
            message = foxglove.image(stamp_ns, frame.stream, data, "jpeg")
            file.add(pictures, stamp_ns, message)
        found = frame.detections
        boxes = b"" if found is None else self._boxes(found, stamp_ns)
        file.add(objects, stamp_ns, boxes)
        file.write_out(now_ns)

    def close(self) -> None:
        """Complete the files; calling it again does nothing.

        Raises:
            OSError: A file could not be completed; it can be read all the same.
        """
        self._files.close()

    def _stamp_ns(self, frame: Frame) -> int:
        origin_ns = self._origins.get(frame.stream)
        if origin_ns is None or frame.pts_ns is None:
            return frame.capture_ns + self._ahead_ns
        return origin_ns + frame.pts_ns

    def _facts_of(self, stream: str) -> tuple[ChannelFacts, ChannelFacts]:
        facts = self._facts.get(stream)
        if facts is None:
            live = self._origins.get(stream) is None
            said = {STREAM: stream, CLOCK: "wall" if live else "media"}
            topic = topic_of(stream)
            facts = self._facts[stream] = (
                ChannelFacts(
                    topic,
                    foxglove.IMAGE,
                    schema(foxglove.IMAGE),
                    {**said, STAMPS: "capture"},
                ),
                ChannelFacts(
                    f"{topic}/{OBJECTS}",
                    foxglove.ANNOTATIONS,
                    schema(foxglove.ANNOTATIONS),
                    said,
                ),
            )
        return facts

    def _boxes(self, found: Detections, stamp_ns: int) -> bytes:
        usable = np.isfinite(found.xyxy).all(axis=1) & np.isfinite(found.score)
        boxes: list[bytes] = []
        labels: list[bytes] = []
        for k in np.flatnonzero(usable).tolist():
            track_id = int(found.track_id[k])
            blue, green, red = (part / 255 for part in color_of(track_id))
            x1, y1, x2, y2 = found.xyxy[k].tolist()
            boxes.append(foxglove.box(stamp_ns, (x1, y1, x2, y2), (red, green, blue)))
            words = [label_of(self._class_names, int(found.class_id[k]))]
            words += [] if track_id == UNTRACKED else [str(track_id)]
            words += [f"{found.score[k]:.2f}"]
            text = " ".join(words)
            labels.append(
                foxglove.label(stamp_ns, (x1, y1), text, (red / 2, green / 2, blue / 2))
            )
        return foxglove.annotations(boxes, labels)
