"""Which of the times of a topic's messages are to be believed. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

from edgepipe.stages.recordings.image_messages import RAW, STILL, ImageMessage
from edgepipe.stages.recordings.recorded import STAMPS, Topic
from edgepipe.stages.sources.recording import ASSUMED_FPS

HEADER, LOG = "header", "log"
SECOND = 10**9


class TopicOptions(NamedTuple):
    """How a topic is to be read."""

    loop: bool = False
    fps: float | None = None
    """Between frames, for a gap to be told from a pause, until the stamps show it."""
    decode_threads: int = 1
    stamps: str | None = None
    """HEADER, LOG, or None: the better ones."""
    zero_ns: int | None = None
    """The stamp that is media time 0; None: that of the first frame."""


class TopicTimes:
    """Gives each message its stamps, from its header or from the recording.

    Args:
        topic: Whose messages they are.
        options: What was asked for.
        probe: Log time and image of the first messages; not kept.

    Attributes:
        notes: Which stamps are used and why, and what was assumed.
        frame_ns: Between two frames.
        fps: The rate.
        origin_ns: The stamp that is media time 0.
    """

    def __init__(
        self,
        topic: Topic,
        options: TopicOptions,
        probe: Sequence[tuple[int, ImageMessage]],
    ) -> None:
        self.notes: list[str] = []
        # Written by edgepipe: the header says when, the log in which order.
        self._is_own = STAMPS in topic.metadata
        self._from, self._is_reordered = HEADER, True
        if not self._is_own:
            self._choose(options.stamps, [image for _, image in probe])
        times = sorted(self.of(*each)[0] for each in probe if each[1].shown)
        self.origin_ns = times[0] if times else 0
        if options.zero_ns is not None:
            self.origin_ns = options.zero_ns
        self.frame_ns, self.fps = self._rate(times, options.fps)

    def of(self, log_ns: int, image: ImageMessage) -> tuple[int, int | None]:
        """When a message is shown, and when it is decoded, if that is known."""
        if self._from == LOG:
            return log_ns, log_ns
        if self._is_own:
            return image.stamp_ns, log_ns
        return image.stamp_ns, None if self._is_reordered else image.stamp_ns

    def _choose(self, wanted: str | None, images: Sequence[ImageMessage]) -> None:
        stamps = [image.stamp_ns for image in images]
        rises = sum(b > a for a, b in pairwise(stamps))
        falls = sum(b < a for a, b in pairwise(stamps))
        rising = rises > 0.8 * (len(stamps) - 1)
        # Where frames refer to later ones, stamps fall again and again, and yet no two
        # are the same.
        video = bool(images) and images[0].format not in (STILL, RAW)
        reordered = video and falls > 0 and len(set(stamps)) == len(stamps)
        usable = any(stamps) and (rising or reordered or len(stamps) == 1)
        if (wanted or (HEADER if usable else LOG)) == HEADER:
            self.notes.append("times are those of the message headers")
            self._is_reordered = reordered
            return
        why = "as asked" if wanted else "the headers' do not rise or are zero"
        self.notes.append(f"times are those of the recording, {why}")
        self._from, self._is_reordered = LOG, False

    def _rate(self, times: Sequence[int], fps: float | None) -> tuple[int, float]:
        """Nanoseconds between frames, and the rate."""
        steps = [b - a for a, b in pairwise(times) if b > a]
        if steps:
            usual = median_low(steps)
            mean = (times[-1] - times[0]) / len(steps)
            # The mean of a regular stream does not depend on how stamps are rounded.
            near = 0.9 * usual < mean < 1.1 * usual
            return usual, round(SECOND / (mean if near else usual), 3)
        if fps is None:
            self.notes.append(f"too few frames to tell a rate: {ASSUMED_FPS:g} fps")
        fps = fps or ASSUMED_FPS
        return round(SECOND / fps), fps
