"""Reading a model card: the YAML file that says what an ONNX file does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgepipe.configs import anchors, card_text, class_names
from edgepipe.configs.card_schema import CardEntry, ClassesEntry, HeadEntry
from edgepipe.configs.check import check, without_extensions
from edgepipe.configs.problems import Mark, Marks, Problem, refuse
from edgepipe.configs.strict_yaml import parse
from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.models.card import (
    Align,
    ColorOrder,
    InputType,
    Layout,
    ModelCard,
    ModelFile,
)
from edgepipe.models.head_options import HeadOptions, Row
from edgepipe.models.heads import CLASSIFIERS, KEYPOINTS, suppresses, unfit_options


def read_card(path: Path) -> tuple[ModelCard, tuple[str, ...]]:
    """Read a model card and its class names, and what is odd about them.

    Whether the model's files exist and fit is found out when they are loaded.

    Raises:
        ConfigError: The card or its file of class names cannot be used.
    """
    content = read_bytes(path)
    document = parse(content, shown(path))
    data, marks = without_extensions(document.data), document.marks
    problems = list(document.problems)
    if data is None:
        refuse(problems)
    entry, broken = check(CardEntry, data, marks)
    problems += broken
    if entry is not None:
        problems += _rules(entry, marks)
    asked = list(_unanswered(content, data, shown(path)))
    if entry is None or problems or asked:
        refuse([*asked, *(each for each in problems if not _covered(each, asked))])
    names, warnings = _class_names(entry.classes, path, marks)
    options = _options(entry.head, path.parent)
    return _card(entry, path.parent, names, options), warnings


def _unanswered(content: bytes, data: object, source: str) -> Iterator[Problem]:
    """What ``edgepipe model inspect`` did not know and nobody has filled in since.

    Some of it has defaults, but a default is what the network may not want.
    """
    for path, line, question in card_text.open_questions(
        content.decode(errors="replace")
    ):
        inside: Any = data
        for key in path:
            inside = inside.get(key) if hasattr(inside, "get") else None
        if inside is None:
            yield Problem(Mark(source, line, 1), path, f"not filled in: {question}")


def _covered(problem: Problem, asked: list[Problem]) -> bool:
    """Whether the problem is the lack of a key, or section, that is asked for."""
    size = len(problem.path)
    lacks = problem.text.startswith(("this key is required", "expected one of names"))
    return lacks and any(each.path[:size] == problem.path for each in asked)


def _rules(entry: CardEntry, marks: Marks) -> Iterator[Problem]:
    if (entry.classes.names is None) == (entry.classes.file is None):
        place = ("classes",)
        yield Problem(marks.value(place), place, "expected one of names and file")
    yield from _thresholds(entry, marks)
    yield from _head(entry.head, marks)
    yield from _pixels(entry, marks)
    seen: set[str] = set()
    for index, file in enumerate(entry.files):
        if file.precision in seen:
            where = ("files", index, "precision")
            said = f"a second file for {file.precision}"
            yield Problem(marks.value(where), where, said)
        seen.add(file.precision)


def _thresholds(entry: CardEntry, marks: Marks) -> Iterator[Problem]:
    """What a head needs of them, and what would mean nothing to it."""
    kind = entry.head.kind
    boxes = kind not in CLASSIFIERS and kind not in KEYPOINTS
    for key, needed, allowed in (
        ("score_threshold", boxes, kind not in CLASSIFIERS),
        ("iou_threshold", boxes and suppresses(kind), boxes and suppresses(kind)),
    ):
        given = getattr(entry, key) is not None
        if given and not allowed:
            text = f"{_what(kind)} (head {kind}) has none: leave it out"
            yield Problem(marks.value((key,)), (key,), text)
        elif needed and not given:
            yield Problem(marks.value(()), (key,), "this key is required")
    if entry.class_agnostic and not (boxes and suppresses(kind)):
        place = ("class_agnostic",)
        text = f"{_what(kind)} (head {kind}) knows no NMS: leave it out"
        yield Problem(marks.value(place), place, text)


def _what(head: str) -> str:
    if head in CLASSIFIERS:
        return "a classifier"
    return "a keypoint model" if head in KEYPOINTS else "a detector without NMS"


def _head(entry: HeadEntry, marks: Marks) -> Iterator[Problem]:
    """Keys that the head does not use, and anchors in two places."""
    place: tuple[str, ...]
    if entry.anchors is not None and entry.anchors_file is not None:
        place = ("head", "anchors_file")
        text = "expected one of anchors and anchors_file"
        yield Problem(marks.value(place), place, text)
    # The file is read later: any anchors stand for its own here.
    stand_in = entry.anchors or (entry.anchors_file and ((0.0, 0.0, 1.0, 1.0),)) or None
    for key, why in unfit_options(entry.kind, _said(entry, stand_in)):
        from_file = key == "anchors" and entry.anchors is None
        place = ("head", "anchors_file" if from_file else key)
        yield Problem(marks.key(place), place, why)


def _options(entry: HeadEntry, folder: Path) -> HeadOptions:
    if entry.anchors_file is None:
        return _said(entry, entry.anchors)
    return _said(entry, anchors.read(folder / entry.anchors_file))


def _said(entry: HeadEntry, rows: tuple[Row, ...] | None) -> HeadOptions:
    return HeadOptions(
        strides=entry.strides,
        anchors=rows,
        anchors_per_cell=entry.anchors_per_cell,
        variances=entry.variances,
        box_format=entry.box_format,
        normalized=entry.normalized,
        decoded=entry.decoded,
        scores=entry.scores,
        background=entry.background,
        keypoints=entry.keypoints,
    )


def _pixels(entry: CardEntry, marks: Marks) -> Iterator[Problem]:
    """A network that takes pixels leaves nothing to normalise."""
    if entry.input.type != "uint8":
        return
    for key, nothing in (("mean", 0.0), ("std", 1.0)):
        if set(getattr(entry.input, key)) != {nothing}:
            place = ("input", key)
            text = f"expected {nothing:g} for each channel: the input is uint8"
            yield Problem(marks.value(place), place, text)


def _class_names(
    entry: ClassesEntry, card: Path, marks: Marks
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if entry.file is not None:
        return class_names.read(card.parent / entry.file)
    names = entry.names or ()
    places = [str(marks.value(("classes", "names", i))) for i in range(len(names))]
    return names, class_names.repeated(names, places)


def _card(
    entry: CardEntry, folder: Path, names: tuple[str, ...], options: HeadOptions
) -> ModelCard:
    files = [
        ModelFile(file.precision, folder / file.path, file.sha256)
        for file in entry.files
    ]
    return ModelCard(
        name=entry.name,
        files=tuple(files),
        input_name=entry.input.name,
        height=entry.input.height,
        width=entry.input.width,
        color=ColorOrder(entry.input.color),
        mean=entry.input.mean,
        std=entry.input.std,
        align=Align(entry.input.align),
        pad_value=entry.input.pad_value,
        head=entry.head.kind,
        outputs=entry.head.outputs,
        class_names=names,
        score_threshold=entry.score_threshold or 0.0,
        iou_threshold=entry.iou_threshold or 0.0,
        max_detections=entry.max_detections,
        class_agnostic=entry.class_agnostic,
        licence=entry.licence,
        provenance=entry.provenance,
        head_options=options,
        layout=Layout(entry.input.layout),
        input_type=InputType(entry.input.type),
    )
