"""The unit of work: one captured image with its identity, times and results."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.source_events import SourceEvent

if TYPE_CHECKING:
    from edgepipe.pipeline.buffers import Slot


class PixelFormat(Enum):
    """How a picture's planes are to be read."""

    BGR = "bgr"
    """One plane, (height, width, 3) uint8, blue first, full range."""
    RGB = "rgb"
    """One plane, (height, width, 3) uint8, red first, full range."""
    GRAY = "gray"
    """One plane, (height, width) uint8, full range."""
    I420 = "i420"
    """Planes Y (h, w), U and V (ceil(h/2), ceil(w/2)), uint8."""
    I422 = "i422"
    """Planes Y (h, w), U and V (h, ceil(w/2)), uint8."""
    I444 = "i444"
    """Planes Y, U and V (h, w), uint8."""
    NV12 = "nv12"
    """Planes Y (h, w) and interleaved UV (ceil(h/2), ceil(w/2), 2), uint8."""
    NV16 = "nv16"
    """Planes Y (h, w) and interleaved UV (h, ceil(w/2), 2), uint8."""


class ColorMatrix(Enum):
    """The matrix between YUV and RGB (ITU-T H.273)."""

    BT601 = "bt601"
    BT709 = "bt709"
    BT2020 = "bt2020"


@dataclass(frozen=True, slots=True)
class Picture:
    """Decoded pixels, as the decoder left them: nothing is converted early.

    The planes are read-only views and may be wider in memory than they look (row
    padding is already cut off, so the stride is larger than the width). They stay
    valid as long as the picture is referenced; ``owner`` keeps the memory alive.

    Where nobody needs the whole picture, planes may be smaller than ``width`` x
    ``height``: these are always the size of what the camera captured.
    """

    format: PixelFormat
    planes: tuple[NDArray[np.uint8], ...]
    width: int
    height: int
    matrix: ColorMatrix = ColorMatrix.BT601
    full_range: bool = False
    """True when Y spans 0..255; ignored for BGR, RGB and GRAY."""
    rotation: int = 0
    """Degrees counterclockwise by which it was turned upright."""
    owner: object = None


@dataclass(frozen=True, slots=True)
class Letterbox:
    """How the captured image lies in the network's input.

    ``network = captured * scale + pad`` for box *edges* (continuous coordinates, the
    left edge of the first pixel is 0), each axis on its own: the resized size is a
    whole number of pixels, so the two scales differ a little, and using one gain for
    both is what shifts boxes.
    """

    scale_x: float
    scale_y: float
    pad_x: int
    pad_y: int

    def to_captured(self, xyxy: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, 4) boxes in network pixels to pixels of the captured image."""
        scale = np.array(
            [self.scale_x, self.scale_y, self.scale_x, self.scale_y], np.float32
        )
        pad = np.array([self.pad_x, self.pad_y, self.pad_x, self.pad_y], np.float32)
        return (xyxy - pad) / scale


class Frame(NamedTuple):
    """One captured image on its way through the pipeline.

    Times are monotonic nanoseconds. A stage never edits a frame: it returns a new one
    (:meth:`with_changes`), so a frame can sit in two branches at once.

    A tuple and not a frozen dataclass, because every stage makes a new one: a changed
    copy costs 1.3 us instead of 6.9 (CPython 3.11, x86-64).
    """

    stream: str
    sequence: int
    """Counts up from 0 in each stream. A stateful stage sees a stream in order."""
    capture_ns: int
    deadline_ns: int
    pts_ns: int | None = None
    """Media time in nanoseconds since the recording began; None without stamps."""
    warm_up: bool = False
    """True while the run is warming up: processed and sunk, but not measured."""
    picture: Picture | None = None
    """The decoded pixels; None before decoding and after they are let go."""
    size: tuple[int, int] | None = None
    """Width and height of the captured image; None before decoding."""
    tensor: "Slot | None" = None
    """Network input lent from the ring, shape (height, width, 3) uint8."""
    letterbox: Letterbox | None = None
    detections: Detections | None = None
    """What was found, in pixels of the captured image, score descending."""
    variant: str = ""
    """Name of the rung or model variant that looked at the frame; ``track_only``: none
    did, and the objects are where the tracker expects them."""
    batch: int = 0
    """Frames in the inference batch; 0 before inference."""
    delivered_ns: int | None = None
    """When the result was handed to the sinks; None before that."""
    gap: int = 0
    """Frames of the stream that the stateful step which works on it has not seen since
    the one before, or since the beginning: lost by the source, dropped or failed."""
    rung: str = ""
    """The rung of the degradation ladder on which it is worked on; empty without a
    ladder. It can change between two steps until the network's turn has come."""
    track_only: bool = False
    """Whether it leaves the network out."""
    looked_ns: int | None = None
    """``scene_ns`` of the frame that the network saw last, from the tracker on: its
    own, or an older one's for a track-only frame. None without a tracker."""

    events: tuple[SourceEvent, ...] = ()
    """What befell the source between the frame before, delivered or not, and this."""

    def with_changes(self, **changes: Any) -> "Frame":
        """A copy of this frame in which some fields differ."""
        return self._replace(**changes)

    @property
    def scene_ns(self) -> int:
        """Time in the scene: media time where there is one, else the capture.

        What moves in the picture moves in this time, also when a recording is replayed
        faster than it was made.
        """
        return self.capture_ns if self.pts_ns is None else self.pts_ns

    def slack_ns(self, now_ns: int) -> int:
        """Time left until the deadline; negative once it has passed."""
        return self.deadline_ns - now_ns
