"""Everything edgepipe must know about a model that its file does not say."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from edgepipe.models.head_options import NO_OPTIONS, HeadOptions


class ColorOrder(Enum):
    """Channel order of the network's input."""

    BGR = "bgr"
    RGB = "rgb"


class Layout(Enum):
    """Order of the input's dimensions."""

    NCHW = "nchw"
    NHWC = "nhwc"


class InputType(Enum):
    """What the input's numbers are."""

    FLOAT32 = "float32"
    UINT8 = "uint8"
    """The network takes pixels as they are: mean and std are inside it."""


class Align(Enum):
    """Where the letterbox puts the image inside the network's input."""

    CENTER = "center"
    TOP_LEFT = "top_left"
    STRETCH = "stretch"
    """No letterbox: each axis is scaled to fill."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One ONNX file of a model."""

    precision: str
    """``int8`` or ``fp32``."""
    path: Path
    sha256: str | None
    """Expected hash of the file; None for a user's file without one."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model: its files, its input and its head."""

    name: str
    files: tuple[ModelFile, ...]
    input_name: str
    height: int
    """Network input height in pixels."""
    width: int
    color: ColorOrder
    mean: tuple[float, float, float]
    """Subtracted per channel, in the network's channel order, on the 0..255 scale."""
    std: tuple[float, float, float]
    """Divided by afterwards, in the network's channel order, on the 0..255 scale."""
    align: Align
    pad_value: tuple[int, int, int]
    """Fill of the letterbox, in the network's channel order."""
    head: str
    """Name of the decoder in ``models.heads``."""
    outputs: tuple[str, ...]
    """Output tensor names in the order in which the head wants them."""
    class_names: tuple[str, ...]
    score_threshold: float
    """Of a detector or a keypoint; 0 where the head has none."""
    iou_threshold: float
    """Of a detector that needs NMS; 0 for others."""
    max_detections: int
    class_agnostic: bool
    licence: str
    provenance: str
    head_options: HeadOptions = NO_OPTIONS
    """What else the head must know."""
    layout: Layout = Layout.NCHW
    input_type: InputType = InputType.FLOAT32

    def input_shape(self, n: int = 1) -> tuple[int, int, int, int]:
        """Shape of the network's own input for ``n`` images."""
        if self.layout is Layout.NHWC:
            return (n, self.height, self.width, 3)
        return (n, 3, self.height, self.width)
