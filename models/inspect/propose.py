"""The model card that follows from an examination and the user's answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgepipe.errors import ModelError
from edgepipe.models.inspect import metadata
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.choose import Chosen, chosen_head
from edgepipe.models.inspect.entrance import Entrance
from edgepipe.models.inspect.examine import Examination
from edgepipe.models.inspect.families import Family, family_of
from edgepipe.models.inspect.origin import Origin


@dataclass(frozen=True, slots=True)
class Item:
    """One key of the card."""

    key: str
    """With dots: ``input.color``."""
    value: Any
    """None if it is not known."""
    origin: Origin
    note: str = ""
    """Why; of an unknown one, what to fill in and how."""


def propose(found: Examination, answers: Answers) -> tuple[Item, ...]:
    """All keys of the card, in its order.

    Raises:
        ModelError: An answer contradicts the file.
    """
    head = chosen_head(found, answers)
    data = found.facts.header.metadata
    family = family_of(head.kind, ultralytics=metadata.is_ultralytics(data))
    return (
        *_files(found, answers),
        *_input(found, answers, family),
        *_head(head),
        *_classes(found, answers, head),
        *_thresholds(answers, family, head),
        *_origin(found, answers),
    )


def unknown(items: Sequence[Item]) -> tuple[Item, ...]:
    """The keys that have to be asked for."""
    return tuple(item for item in items if item.origin is Origin.UNKNOWN)


def _files(found: Examination, answers: Answers) -> Iterator[Item]:
    if answers.name is not None:
        yield Item("name", answers.name, Origin.GIVEN)
    else:
        yield Item("name", _identifier(found.facts.path.stem), Origin.FILE, "its name")
    quantised = found.facts.quantised
    yield Item(
        "precision",
        "int8" if quantised else "fp32",
        Origin.FILE,
        quantised or "no quantised operator",
    )


def _identifier(stem: str) -> str:
    """A file's name as a model's: letters, digits, dots, dashes and underscores."""
    kept = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-"
        for letter in stem
    )
    return kept.strip("._-")[:64] or "model"


def _input(found: Examination, answers: Answers, family: Family) -> Iterator[Item]:
    entrance = found.entrance
    if entrance is None:
        words = "which of the inputs takes the image cannot be said: edgepipe feeds one"
        yield Item("input.name", None, Origin.UNKNOWN, words)
        return
    yield Item("input.name", entrance.tensor.name, Origin.FILE)
    yield from _size(found, answers, entrance)
    yield from _layout(answers, entrance)
    if entrance.tensor.dtype == "uint8":
        yield Item("input.type", "uint8", Origin.FILE)
    yield _said(
        "input.color",
        answers.color,
        family.color,
        family,
        "rgb or bgr, as in training: --color",
    )
    yield from _normalisation(answers, family, entrance)
    align = answers.align
    if align is None and family.align is None:
        words = "center, top_left or stretch, as in training: --align"
        yield Item("input.align", "center", Origin.CARD, words)
    else:
        yield _said("input.align", align, family.align, family, "")
    if answers.pad_value is not None:
        yield Item("input.pad_value", list(answers.pad_value), Origin.GIVEN)


def _said(
    key: str, given: Any, usual: Any, family: Family, question: str, note: str = ""
) -> Item:
    """What the user said, else what the family does, else a question."""
    if given is not None:
        return Item(key, given, Origin.GIVEN)
    if usual is not None:
        return Item(key, usual, Origin.FAMILY, note or family.called)
    return Item(key, None, Origin.UNKNOWN, question)


def _size(found: Examination, answers: Answers, entrance: Entrance) -> Iterator[Item]:
    data = found.facts.header.metadata
    fixed = entrance.spatial
    from_metadata = metadata.image_size(data)
    for index, key in enumerate(("input.height", "input.width")):
        if fixed[index] is not None:
            yield Item(key, fixed[index], Origin.FILE)
        elif answers.size is not None:
            yield Item(key, answers.size[index], Origin.GIVEN)
        elif from_metadata is not None:
            yield Item(key, from_metadata[index], Origin.METADATA, "imgsz")
        else:
            words = "free in the file; a multiple of 32, as in training: --size WxH"
            yield Item(key, None, Origin.UNKNOWN, words)


def _layout(answers: Answers, entrance: Entrance) -> Iterator[Item]:
    if answers.layout is not None:
        yield Item("input.layout", answers.layout, Origin.GIVEN)
    elif entrance.channels_last:
        yield Item("input.layout", "nhwc", Origin.FILE, "channels are the last axis")
    elif entrance.channels_last is None:
        words = "nchw or nhwc: which axis of the input holds the channels: --layout"
        yield Item("input.layout", None, Origin.UNKNOWN, words)


def _normalisation(
    answers: Answers, family: Family, entrance: Entrance
) -> Iterator[Item]:
    mean, std, origin, note = family.mean, family.std, Origin.FAMILY, family.called
    is_bytes = entrance.tensor.dtype == "uint8"
    if entrance.white is not None or is_bytes:
        scale = 255.0 if entrance.white == 1 else 1.0
        mean, std = (0.0, 0.0, 0.0), (scale, scale, scale)
        origin = Origin.FILE
        steps = ", ".join(entrance.steps)
        note = f"{steps} in front of the first layer" if steps else "takes bytes"
    for key, given, value in (
        ("input.mean", answers.mean, mean),
        ("input.std", answers.std, std),
    ):
        if given is not None:
            yield Item(key, list(given), Origin.GIVEN)
        elif value is not None:
            yield Item(key, list(value), origin, note)
        else:
            words = (
                "three numbers on the scale 0..255, in the network's order of channels,"
                f" as in training: --{key.removeprefix('input.')} A,B,C"
            )
            yield Item(key, None, Origin.UNKNOWN, words)


def _head(head: Chosen) -> Iterator[Item]:
    yield Item("head.kind", head.kind, head.origin, head.note)
    outputs = list(head.outputs) or None
    origin = head.outputs_origin if outputs else Origin.UNKNOWN
    yield Item(
        "head.outputs", outputs, origin, "" if outputs else head.outputs_question
    )
    for key, value in head.given.items():
        yield Item(f"head.{key}", value, Origin.GIVEN)
    for key, value in head.options.items():
        yield Item(f"head.{key}", value, Origin.FILE)
    for key, question in head.asked.items():
        option = f"{key}_file=FILE" if key == "anchors" else f"{key}=..."
        words = f"{question}: --set head.{option}"
        yield Item(f"head.{key}", None, Origin.UNKNOWN, words)


def _classes(found: Examination, answers: Answers, head: Chosen) -> Iterator[Item]:
    count = head.classes
    from_metadata = metadata.class_names(found.facts.header.metadata)
    if answers.class_names:
        _require_count(found, count, len(answers.class_names))
        if answers.class_file is not None:
            yield Item("classes.file", answers.class_file, Origin.GIVEN)
        else:
            yield Item("classes.names", list(answers.class_names), Origin.GIVEN)
    elif from_metadata is not None and count in (None, len(from_metadata)):
        yield Item("classes.names", list(from_metadata), Origin.METADATA, "names")
    else:
        many = "the" if count is None else f"{count}"
        words = f"{many} names in class order, one a line in a file: --names FILE"
        if from_metadata is not None:
            words += f" (metadata name {len(from_metadata)})"
        yield Item("classes.names", None, Origin.UNKNOWN, words)


def _require_count(found: Examination, classes: int | None, names: int) -> None:
    if classes is not None and classes != names:
        raise ModelError(
            f"{found.facts.path}: the outputs have {classes} classes, there are "
            f"{names} names"
        )


def _thresholds(answers: Answers, family: Family, head: Chosen) -> Iterator[Item]:
    for key, given, usual, option in (
        ("score_threshold", answers.score_threshold, family.score_threshold, "score"),
        ("iou_threshold", answers.iou_threshold, family.iou_threshold, "iou"),
    ):
        if key not in head.thresholds:
            continue
        if given is not None:
            yield Item(key, given, Origin.GIVEN)
        elif family.called:
            yield Item(key, usual, Origin.FAMILY, family.called)
        else:
            words = f"set it by what you see: --{option}"
            yield Item(key, usual, Origin.START, words)


def _origin(found: Examination, answers: Answers) -> Iterator[Item]:
    data = found.facts.header.metadata
    for key, given, from_metadata in (
        ("licence", answers.licence, metadata.licence(data)),
        ("provenance", answers.provenance, metadata.description(data)),
    ):
        if given is not None:
            yield Item(key, given, Origin.GIVEN)
        elif from_metadata is not None:
            yield Item(key, from_metadata, Origin.METADATA)
        else:
            yield Item(key, "not stated", Origin.CARD, f"--{key} TEXT")
