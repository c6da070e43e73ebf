"""Outputs of second networks that find keypoints. Shapes alone never decide them."""

from collections.abc import Iterator, Sequence

from edgepipe.models.inspect.seen import Seen
from edgepipe.models.inspect.verdict import Reading

_MAPS = 4
"""Dimensions of an output with a map for each keypoint."""


def readings(outputs: Sequence[Seen]) -> Iterator[Reading]:
    """The keypoint heads that the shapes allow."""
    if len(outputs) == 1:
        yield from _of_one(outputs[0])
    elif outputs and len(outputs) % 2 == 0:
        yield from _anchored(outputs)


def _of_one(seen: Seen) -> Iterator[Reading]:
    if seen.rank == _MAPS and (seen.size(1) or 0) > 1:
        because = f"{seen.size(1)} maps, if each is a keypoint's"
        yield Reading("heatmaps", (seen.name,), seen.size(1), because, certain=False)
    if seen.rank == 2 and seen.last and seen.last > 2:
        for values, form in ((2, "xy"), (3, "xys or xyz")):
            if seen.last % values == 0:
                yield Reading(
                    "keypoints",
                    (seen.name,),
                    seen.last // values,
                    f"{seen.last // values} keypoints of {values} values, if they are",
                    certain=False,
                    asked={"keypoints": f"{form}: what a keypoint's values are"},
                )


def _anchored(outputs: Sequence[Seen]) -> Iterator[Reading]:
    """Scores (n, 1) of each level, then offsets (n, 4 + 2 x keypoints) of each."""
    if any(each.rank != 3 for each in outputs):
        return
    scores = {each.size(1): each for each in outputs if each.last == 1}
    offsets = {each.size(1): each for each in outputs if (each.last or 0) > 4}
    if set(scores) != set(offsets) or 2 * len(scores) != len(outputs) or None in scores:
        return
    wide = {each.last for each in offsets.values()}
    rows = sorted((size for size in scores if size is not None), reverse=True)
    columns = wide.pop()
    if wide or columns is None or columns % 2:
        return
    yield Reading(
        "anchored-keypoints",
        (*(scores[n].name for n in rows), *(offsets[n].name for n in rows)),
        (columns - 4) // 2,
        f"scores and {columns} offsets of {' and '.join(map(str, rows))} anchors, if "
        f"they are a box and {(columns - 4) // 2} keypoints",
        certain=False,
        asked={
            "strides": f"pixels of a cell, of levels with {rows} anchors",
            "anchors_per_cell": "how many anchors lie on a cell of each of them",
        },
    )
