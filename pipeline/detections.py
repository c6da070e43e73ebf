"""What a detector found in one frame, as a struct of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

UNTRACKED = -1
"""Track id of a detection that no confirmed track claims."""


NOT_LOOKED_AT = -1
"""Class of an object at which a second network has not looked."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """What a second network says of each object that was found."""

    name: str
    """Of the network, as the configuration calls it."""
    labels: Sequence[str]
    """Its class names; shared, not to be changed."""
    class_id: NDArray[np.int32]
    """(n,) index into ``labels``; :data:`NOT_LOOKED_AT` where it was not asked."""
    score: NDArray[np.float32]
    """(n,) probability of that class; 0 where it was not asked."""

    def label(self, index: int) -> str | None:
        """What it says of one object; None where it was not asked."""
        class_id = int(self.class_id[index])
        return None if class_id == NOT_LOOKED_AT else self.labels[class_id]


@dataclass(frozen=True, slots=True)
class Keypoints:
    """Where a second network sees the parts of each object that was found."""

    name: str
    """Of the network, as the configuration calls it."""
    labels: Sequence[str]
    """What the k keypoints are called; shared, not to be changed."""
    xy: NDArray[np.float32]
    """(n, k, 2) in pixels of the captured image; NaN where it was not asked or has
    found nothing."""
    score: NDArray[np.float32] | None
    """(n, k) in 0..1; None if the network gives none."""


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes with scores, classes and (after tracking) identities.

    All arrays have the same length n. Boxes are in pixels of the captured image.
    """

    xyxy: NDArray[np.float32]
    """(n, 4): x1, y1, x2, y2, box edges in pixels."""
    score: NDArray[np.float32]
    """(n,) in 0..1."""
    class_id: NDArray[np.int32]
    """(n,) index into the model's class names."""
    track_id: NDArray[np.int64]
    """(n,) identity, unique in its stream; -1 is not (yet) a confirmed track."""
    truncated: int = 0
    """How many more there were, cut by ``max_detections`` after NMS."""
    attributes: tuple[Attribute, ...] = ()
    """What second networks say of the objects, each with arrays of length n."""
    keypoints: tuple[Keypoints, ...] = ()
    """Where second networks see the parts of the objects, likewise."""

    def __post_init__(self) -> None:
        """Check that the shapes agree."""
        n = len(self.xyxy)
        if self.xyxy.shape != (n, 4):
            raise ValueError(f"xyxy: expected shape (n, 4), got {self.xyxy.shape}")
        for name in ("score", "class_id", "track_id"):
            shape = getattr(self, name).shape
            if shape != (n,):
                raise ValueError(f"{name}: expected shape ({n},), got {shape}")
        for each in self.attributes:
            if not each.class_id.shape == each.score.shape == (n,):
                raise ValueError(f"attribute {each.name}: expected shape ({n},)")
        for one in self.keypoints:
            k = len(one.labels)
            scored = one.score is None or one.score.shape == (n, k)
            if one.xy.shape != (n, k, 2) or not scored:
                raise ValueError(f"keypoints {one.name}: expected shape ({n}, {k}, 2)")

    def __len__(self) -> int:
        return len(self.xyxy)

    @classmethod
    def empty(cls) -> "Detections":
        """No detections."""
        return cls.of(np.empty((0, 4)), np.empty(0), np.empty(0))

    @classmethod
    def of(
        cls,
        xyxy: NDArray[np.generic],
        score: NDArray[np.generic],
        class_id: NDArray[np.generic],
        *,
        truncated: int = 0,
    ) -> "Detections":
        """Untracked detections from arrays of any numeric type."""
        return cls(
            np.asarray(xyxy, np.float32).reshape(-1, 4),
            np.asarray(score, np.float32),
            np.asarray(class_id, np.int32),
            np.full(len(xyxy), UNTRACKED, np.int64),
            truncated,
        )

    def tracked(self, track_id: NDArray[np.int64]) -> "Detections":
        """The same detections with identities."""
        return replace(self, track_id=np.asarray(track_id, np.int64))

    def described(self, attribute: Attribute) -> "Detections":
        """The same detections with one more attribute."""
        return replace(self, attributes=(*self.attributes, attribute))

    def pointed(self, keypoints: Keypoints) -> "Detections":
        """The same detections with the keypoints of one more network."""
        return replace(self, keypoints=(*self.keypoints, keypoints))
