"""Reading a model card: the YAML file that says what an ONNX file does not."""

from collections.abc import Iterator
from pathlib import Path

from edgepipe.configs import class_names
from edgepipe.configs.card_schema import CardEntry, ClassesEntry
from edgepipe.configs.check import check, without_extensions
from edgepipe.configs.problems import Marks, Problem, refuse
from edgepipe.configs.strict_yaml import parse
from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.models.card import (
    CLASSIFIER_HEADS,
    Align,
    ColorOrder,
    ModelCard,
    ModelFile,
)


def read_card(path: Path) -> tuple[ModelCard, tuple[str, ...]]:
    """Read a model card and its class names, and what is odd about them.

    Whether the model's files exist and fit is found out when they are loaded.

    Raises:
        ConfigError: The card or its file of class names cannot be used.
    """
    document = parse(read_bytes(path), shown(path))
    data, marks = without_extensions(document.data), document.marks
    problems = list(document.problems)
    if data is None:
        refuse(problems)
    entry, broken = check(CardEntry, data, marks)
    problems += broken
    if entry is not None:
        problems += _rules(entry, marks)
    if entry is None or problems:
        refuse(problems)
    names, warnings = _class_names(entry.classes, path, marks)
    return _card(entry, path.parent, names), warnings


def _rules(entry: CardEntry, marks: Marks) -> Iterator[Problem]:
    if (entry.classes.names is None) == (entry.classes.file is None):
        place = ("classes",)
        yield Problem(marks.value(place), place, "expected one of names and file")
    yield from _thresholds(entry, marks)
    seen: set[str] = set()
    for index, file in enumerate(entry.files):
        if file.precision in seen:
            where = ("files", index, "precision")
            said = f"a second file for {file.precision}"
            yield Problem(marks.value(where), where, said)
        seen.add(file.precision)


def _thresholds(entry: CardEntry, marks: Marks) -> Iterator[Problem]:
    """A detector needs them, and to a classifier they would mean nothing."""
    is_classifier = entry.head.kind in CLASSIFIER_HEADS
    for key in ("score_threshold", "iou_threshold"):
        given = getattr(entry, key) is not None
        if given and is_classifier:
            text = f"a classifier (head {entry.head.kind}) has none: leave it out"
            yield Problem(marks.value((key,)), (key,), text)
        elif not given and not is_classifier:
            yield Problem(marks.value(()), (key,), "this key is required")


def _class_names(
    entry: ClassesEntry, card: Path, marks: Marks
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if entry.file is not None:
        return class_names.read(card.parent / entry.file)
    names = entry.names or ()
    places = [str(marks.value(("classes", "names", i))) for i in range(len(names))]
    return names, class_names.repeated(names, places)


def _card(entry: CardEntry, folder: Path, names: tuple[str, ...]) -> ModelCard:
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
    )
