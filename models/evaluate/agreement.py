"""What a network's own detections say where there are no labels.

A truth is made of detections: those of at least the working score are objects, those
below are ignored, so that an object whose score hovers about the working score is
neither missed nor invented.
"""

from edgepipe.models.evaluate.matching import Detected, Truth


def truth_from(found: Detected, working_score: float) -> Truth:
    """Detections as the truth against which others are judged.

    Args:
        found: All detections, from a score well below the working score on.
        working_score: From here on they are objects that ought to be found.
    """
    return Truth.of(found.xyxy, found.class_id, ignore=found.score < working_score)
