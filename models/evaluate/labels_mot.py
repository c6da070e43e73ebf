"""Labels as MOTChallenge writes them: one line of commas for each object."""

from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.models.evaluate.label_lines import Row, numbers_of, objects_of, whole
from edgepipe.models.evaluate.truths import Objects

NAMES = ("person", "car", "bicycle", "motorcycle")
SAME_AS = {"person": ("pedestrian", "walker"), "motorcycle": ("motorbike",)}
_CLASSES = {-1: 0, 1: 0, 3: 1, 4: 2, 5: 3}
"""MOT16's numbers; -1, as in MOT15, is a person."""
_PERSON_LIKE = {2: 0, 7: 0, 8: 0, 12: 0}
"""On a vehicle, static, distractor, reflection: found or not, it does not count."""


def read_mot(
    path: Path, text: str
) -> tuple[tuple[str, ...], dict[int, Objects], tuple[str, ...]]:
    """Class names, the objects of each frame from 0, and notes.

    A line is frame, identity, left, top, width, height, and then confidence, class and
    what else there is. What has the confidence 0 is ignored, as the challenge does.

    Raises:
        InputError: A line makes no sense.
    """
    frames: dict[int, list[Row]] = {}
    others: set[int] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        values = numbers_of([word.strip() for word in line.split(",")], where)
        if len(values) < 6:
            raise InputError(
                f"{where}: expected frame,id,left,top,width,height,..., got"
                f" {len(values)} values"
            )
        frame = whole(values[0], where, "frame")
        if frame < 1:
            raise InputError(f"{where}: frame: they count from 1, got 0")
        rows = frames.setdefault(frame - 1, [])
        row = _row(values, where, others)
        if row is not None:
            rows.append(row)
    notes = tuple(f"class {k} of the labels is not judged" for k in sorted(others))
    return NAMES, {frame: objects_of(rows) for frame, rows in frames.items()}, notes


def _row(values: list[float], where: str, others: set[int]) -> Row | None:
    left, top, width, height = values[2:6]
    if width <= 0 or height <= 0:
        raise InputError(
            f"{where}: expected a width and height above 0, got {width:g}x{height:g}"
        )
    kind = int(values[7]) if len(values) > 7 else -1
    ignore = (len(values) > 6 and values[6] == 0) or kind in _PERSON_LIKE
    label = (_CLASSES | _PERSON_LIKE).get(kind)
    if label is None:
        others.add(kind)
        return None
    return left, top, left + width, top + height, label, ignore
