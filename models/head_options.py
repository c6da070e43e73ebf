"""What a card may say of its head, beside the names of the outputs."""

from dataclasses import dataclass, fields
from typing import Literal

BoxFormat = Literal["xyxy", "yxyx", "cxcywh", "cycxhw"]
"""Order of a box's four values: edges, or centre and size; x first or y first."""
ScoreKind = Literal["probabilities", "sigmoid", "softmax"]
"""What is still to be done to the scores: nothing, a sigmoid of each, a softmax."""
Background = Literal["none", "first", "last"]
"""Which column of the scores stands for "no object"."""
PointFormat = Literal["xy", "yx", "xys", "yxs", "xyz"]
"""Values of a keypoint: s is its score, z is left out."""
Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """None: the card does not say it, and the head's default holds."""

    strides: tuple[int, ...] | None = None
    """Pixels of the input for each cell of a level, in the order of the output."""
    anchors: tuple[Row, ...] | None = None
    """Each anchor's cx, cy, w, h, in the order of the output."""
    anchors_per_cell: tuple[int, ...] | None = None
    """How many anchors of full size lie on each cell of a level."""
    variances: Row | None = None
    """Factors of the offsets of cx, cy, w, h."""
    box_format: BoxFormat | None = None
    normalized: bool | None = None
    """Whether lengths are shares of the input's sides instead of pixels."""
    decoded: bool | None = None
    """Whether the graph makes boxes of the offsets itself."""
    scores: ScoreKind | None = None
    background: Background | None = None
    keypoints: PointFormat | None = None

    def said(self) -> dict[str, object]:
        """What the card says, by key."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in values.items() if value is not None}


NO_OPTIONS = HeadOptions()
