"""Which head reads the outputs, by evidence; where that is not enough, which could."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgepipe.models.inspect import finished, keypoints, pairs, yolo
from edgepipe.models.inspect.seen import Seen
from edgepipe.models.inspect.verdict import Reading, Verdict

UNREAD_TASKS = {"segment": "masks", "pose": "keypoints", "obb": "turned boxes"}
"""Tasks of Ultralytics whose outputs no head here reads."""
_MAPS = 4
"""Dimensions of an output that is a picture or a map of features."""


def recognise(
    outputs: Sequence[Seen],
    height: int,
    width: int,
    *,
    task: str | None,
    classes: int | None,
) -> Verdict:
    """Find the head.

    Args:
        outputs: Of the network at this size.
        height: Of its input in pixels.
        width: The same.
        task: What metadata call the network's work, as Ultralytics' do.
        classes: How many names of classes metadata give.
    """
    if task in UNREAD_TASKS:
        text = (
            f"metadata: a network for task {task!r}: no head reads {UNREAD_TASKS[task]}"
        )
        return Verdict((), (text,))
    found = list(_readings(outputs, height, width, task))
    alone = [each for each in outputs if not each.is_whole]
    if not any(isinstance(each, Reading) and each.certain for each in found):
        found += keypoints.readings(alone)
    remarks = tuple(dict.fromkeys(each for each in found if isinstance(each, str)))
    possible = [each for each in found if isinstance(each, Reading)]
    if task == "detect" and classes is not None:
        possible = [_named(each, classes) for each in possible]
    certain = [each for each in possible if each.certain]
    return Verdict(tuple(certain if len(certain) == 1 else possible), remarks)


def _named(reading: Reading, classes: int) -> Reading:
    """The same, certain if metadata name as many classes as it has."""
    if reading.certain or reading.classes != classes:
        return reading
    because = f"{reading.because}: metadata name as many"
    return replace(reading, certain=True, because=because)


def _readings(
    outputs: Sequence[Seen], height: int, width: int, task: str | None
) -> Iterator[Reading | str]:
    if len(outputs) == 1:
        yield from _of_one(outputs[0], height, width, task)
    elif len(outputs) == 2 and all(each.rank == 3 for each in outputs):
        yield from pairs.readings(outputs, height, width)
    else:
        found = list(finished.several_outputs(outputs, max(height, width)))
        yield from found or _of_one_among_others(outputs, height, width, task)


def _of_one(
    seen: Seen, height: int, width: int, task: str | None
) -> Iterator[Reading | str]:
    if seen.is_whole:
        yield f"output {seen.name!r}: whole numbers alone, which no head reads"
    elif seen.rank == 3:
        yield from finished.one_output(seen, max(height, width))
        yield from yolo.readings(seen, height, width)
    elif seen.rank == 2:
        yield from _classifier(seen, task)
    elif seen.rank >= _MAPS:
        yield _map(seen)


def _of_one_among_others(
    outputs: Sequence[Seen], height: int, width: int, task: str | None
) -> Iterator[Reading | str]:
    """With outputs that no head reads beside it, which one counts has to be said."""
    for seen in outputs:
        for each in _of_one(seen, height, width, task):
            if isinstance(each, str):
                yield each
            elif seen.rank > 2:
                because = f"{each.because}, if the other outputs do not matter"
                yield replace(each, certain=False, because=because)


def _map(seen: Seen) -> str:
    shape = " x ".join("?" if size is None else str(size) for size in seen.shape or ())
    return (
        f"output {seen.name!r} ({shape}) is a map: masks, heat or raw values of one "
        f"level, which no detector's head reads"
    )


def _classifier(seen: Seen, task: str | None) -> Iterator[Reading | str]:
    groups = seen.columns(1)
    classes = seen.last
    if classes is None or classes < 2:
        return
    ends = {path.steps[0].op if path.steps else "" for g in groups for path in g.paths}
    if ends == {"Softmax"}:
        because = f"one row of {classes} values, a softmax is the last operator"
        yield Reading("probabilities", (seen.name,), classes, because, certain=True)
    elif "Sigmoid" in ends:
        yield (
            f"output {seen.name!r}: {classes} values with a sigmoid each: several "
            f"classes may be true at once, which no head reads"
        )
    else:
        because = f"one row of {classes} values, if they are scores of classes"
        known = task == "classify"
        yield Reading("classifier", (seen.name,), classes, because, certain=known)
