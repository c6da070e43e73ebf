"""Outputs of networks that suppress by themselves."""

from collections.abc import Iterator, Sequence

import numpy as np

from edgepipe.models.inspect.boxes import box_values, format_of, is_normalised
from edgepipe.models.inspect.seen import Seen
from edgepipe.models.inspect.verdict import Reading

_MOST_ROWS = 2000
_TENSORFLOW = "detection_boxes"
"""So its detection API calls boxes; most, but not all of them, have y first."""


def one_output(seen: Seen, side: int) -> Iterator[Reading | str]:
    """A single output (1, n, 6): a box, its score, its class."""
    rows = seen.size(1)
    if seen.rank != 3 or seen.last != 6 or (rows is not None and rows > _MOST_ROWS):
        return
    order = _order(seen)
    if order == "swapped":
        yield (
            f"output {seen.name!r}: the class stands before the score: head end-to-end "
            f"reads box, score, class"
        )
        return
    options, asked = _boxes(seen, side)
    yield Reading(
        "end-to-end",
        (seen.name,),
        None,
        "rows of 4 + 1 + 1 columns, the last a whole number"
        if order
        else "rows of 6, if they are a box, its score and its class",
        certain=order is not None,
        options=options,
        asked=asked if order else {},
    )


def _order(seen: Seen) -> str | None:
    """``score`` first, ``swapped``, or None where nothing tells."""
    groups = {group.start: group for group in seen.columns(2)}
    whole = [start for start, group in groups.items() if group.has("Whole")]
    if 5 in whole and 4 not in whole and 4 in groups:
        return "score"
    if 4 in whole and 5 in groups and 5 not in whole:
        return "swapped"
    if seen.values is None or not seen.values.size:
        return None
    rows = seen.values.reshape(-1, 6)
    score, number = rows[:, 4], rows[:, 5]
    if _is_share(score) and _is_number(number):
        return "score"
    return "swapped" if _is_share(number) and _is_number(score) else None


def _is_share(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bool:
    inside = bool(np.all((values >= 0) & (values <= 1)))
    return inside and bool(np.any(values != np.rint(values)))


def _is_number(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bool:
    return bool(np.all((values == np.rint(values)) & (values >= -1)))


def _boxes(seen: Seen, side: int) -> tuple[dict[str, object], dict[str, str]]:
    """Options of the boxes, and what of them has to be asked."""
    options: dict[str, object] = {}
    asked: dict[str, str] = {}
    boxes = box_values(seen.values, slice(0, 4), seen.rank - 1)
    found = format_of(boxes)
    if found is None or seen.name.startswith(_TENSORFLOW):
        asked["box_format"] = "xyxy, yxyx, cxcywh or cycxhw"
    elif found != "xyxy":
        options["box_format"] = found
    share = is_normalised(boxes, side)
    if share is None:
        asked["normalized"] = "true if boxes are shares of the input, false if pixels"
    elif share:
        options["normalized"] = True
    return options, asked


def several_outputs(seen: Sequence[Seen], side: int) -> Iterator[Reading | str]:
    """Scores (1, n), boxes (1, n, 4), classes (1, n) and perhaps how many they are."""
    boxes = [each for each in seen if each.rank == 3 and each.last == 4]
    flat = [each for each in seen if each.rank == 2 and each.last != 1]
    counts = [each for each in seen if each.rank <= 2 and each.last in (1, None)]
    counts = [each for each in counts if each not in flat and each not in boxes]
    if len(boxes) != 1 or len(flat) != 2 or len(seen) != 3 + len(counts) > 4:
        return
    numbers = [each for each in flat if each.is_whole or _named_class(each)]
    if len(numbers) != 1:
        numbers = [each for each in flat if each.holds_numbers_of_classes()]
    options, asked = _boxes(boxes[0], side)
    if len(numbers) != 1:
        yield Reading(
            "postprocessed",
            (),
            None,
            "scores, boxes and classes of finished boxes, if they are; which of "
            f"{flat[0].name!r} and {flat[1].name!r} holds the scores is not known",
            certain=False,
        )
        return
    (score,) = (each for each in flat if each is not numbers[0])
    because = (
        f"{score.name!r} holds scores, {boxes[0].name!r} boxes, {numbers[0].name!r} "
    )
    yield Reading(
        "postprocessed",
        (score.name, boxes[0].name, numbers[0].name, *(each.name for each in counts)),
        None,
        because + ("integers" if numbers[0].is_whole else "numbers of classes"),
        certain=True,
        options=options,
        asked=asked,
    )


def _named_class(seen: Seen) -> bool:
    return any(word in seen.name.lower() for word in ("class", "label"))
