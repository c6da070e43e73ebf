"""What a network's own detections say where there are no labels.

The truth is what the FP32 network finds in the *mirrored* picture. Its plain detections
would be no truth: against themselves they are right to the last pixel, and every
network that is not the same to the last bit looks poor. The mirrored ones are as far
from the plain ones of FP32 as from those of an INT8 network that is as good, so the
difference of the two is near to what labels would tell (docs/accuracy.md has the
figures).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.evaluate.matching import Detected, Matches, Truth


@dataclass(frozen=True, slots=True)
class Boxes:
    """Detections: the least that can be matched."""

    xyxy: NDArray[np.float32]
    score: NDArray[np.float32]
    class_id: NDArray[np.int32]


def mirror_image(image: NDArray[np.uint8], left: int, width: int) -> NDArray[np.uint8]:
    """A copy with so many columns of the picture mirrored, the rest as it is.

    Args:
        image: (height, width, 3).
        left: First column of the picture; what is beside it is the letterbox's.
        width: Columns of the picture.
    """
    mirrored = image.copy()
    mirrored[:, left : left + width] = image[:, left : left + width][:, ::-1]
    return mirrored


def mirror_back(found: Detected, left: int, width: int) -> Boxes:
    """What was found in a mirrored image, where it would be in the image itself."""
    xyxy = found.xyxy.copy()
    xyxy[:, [0, 2]] = 2 * left + width - found.xyxy[:, [2, 0]]
    return Boxes(xyxy, found.score, found.class_id)


def truth_from(found: Detected, working_score: float) -> Truth:
    """Detections as the truth against which others are judged.

    Those below the working score are ignored, so that an object whose score hovers
    about it is neither missed nor invented.

    Args:
        found: All detections, from a score well below the working score on.
        working_score: From here on they are objects that ought to be found.
    """
    return Truth.of(found.xyxy, found.class_id, ignore=found.score < working_score)


def as_one_class(frames: Sequence[Matches]) -> list[Matches]:
    """The same frames with every object of equal weight, whatever its class.

    Without labels the classes with few objects are mistakes that FP32 made once or
    twice, and a mean over classes would let them decide. What was matched stays
    matched: an object is found only by a detection of its class.
    """
    return [
        replace(
            frame,
            class_id=np.zeros_like(frame.class_id),
            objects=np.zeros_like(frame.objects),
        )
        for frame in frames
    ]
