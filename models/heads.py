"""The decoders by name, and the check that a model's outputs fit its decoder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from edgepipe.errors import ModelError
from edgepipe.models.candidates import Head, Reader, Shape
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads_boxes import BoxesHead, DetrHead, SsdHead
from edgepipe.models.heads_classifier import ClassifierHead
from edgepipe.models.heads_distance import DistanceHead, NanoDetHead, NanoDetPlusHead
from edgepipe.models.heads_final import EndToEndHead, PostprocessedHead
from edgepipe.models.heads_keypoints import (
    AnchoredHead,
    HeatmapHead,
    KeypointHead,
    RegressedHead,
)
from edgepipe.models.heads_yolo import YoloV5Head, YoloV8Head, YoloXHead

R = TypeVar("R", bound=Reader)

ANY: tuple[object, ...] = ()
"""Every value that the card's schema lets through."""
_SHARES = ("probabilities", "sigmoid")
_SCORES = ("probabilities", "sigmoid", "softmax")
_BOXES = {"box_format": ANY, "normalized": ANY}
_CLASSES = {"scores": _SCORES, "background": ANY}
_YOLO = {"strides": ANY, "scores": _SHARES, **_BOXES}


@dataclass(frozen=True)
class _Kind(Generic[R]):
    build: Callable[[ModelCard], R]
    reads: tuple[str, ...]
    """What each of the card's outputs is, in order."""
    options: Mapping[str, tuple[object, ...]]
    """Keys of the card's head section that it uses, with the values that it knows."""
    optional: tuple[str, ...] = ()
    """Outputs that may follow."""
    any_number: bool = False
    """Whether it has a word of its own about the number of outputs."""
    suppresses: bool = True
    """Whether a detector's boxes need NMS."""


DETECTORS: Mapping[str, _Kind[Head]] = MappingProxyType(
    {
        "nanodet": _Kind[Head](
            NanoDetHead,
            ("scores", "distance bins"),
            {"strides": ANY, "scores": _SHARES},
        ),
        "nanodet-plus": _Kind[Head](
            NanoDetPlusHead,
            ("scores and distance bins",),
            {"strides": ANY, "scores": _SHARES},
        ),
        "distances": _Kind[Head](
            DistanceHead, ("scores", "distances"), {"strides": ANY, "scores": _SHARES}
        ),
        "yolov8": _Kind[Head](YoloV8Head, ("boxes and scores",), _YOLO),
        "yolov5": _Kind[Head](YoloV5Head, ("boxes, objectness and scores",), _YOLO),
        "yolox": _Kind[Head](
            YoloXHead,
            ("boxes, objectness and scores",),
            {"strides": ANY, "scores": _SHARES, "decoded": ANY},
        ),
        "boxes": _Kind[Head](BoxesHead, ("scores", "boxes"), {**_BOXES, **_CLASSES}),
        "ssd": _Kind[Head](
            SsdHead,
            ("scores", "offsets"),
            {
                "anchors": ANY,
                "variances": ANY,
                "box_format": ("cxcywh", "cycxhw"),
                "normalized": ANY,
                **_CLASSES,
            },
        ),
        "detr": _Kind[Head](
            DetrHead, ("scores", "boxes"), {**_BOXES, **_CLASSES}, suppresses=False
        ),
        "end-to-end": _Kind[Head](
            EndToEndHead, ("boxes, scores and classes",), _BOXES, suppresses=False
        ),
        "postprocessed": _Kind[Head](
            PostprocessedHead,
            ("scores", "boxes", "classes"),
            {**_BOXES, "background": ("none", "first")},
            optional=("number of detections",),
            suppresses=False,
        ),
    }
)
CLASSIFIERS: Mapping[str, _Kind[ClassifierHead]] = MappingProxyType(
    {
        "classifier": _Kind(partial(ClassifierHead, softmax=True), ("scores",), {}),
        "probabilities": _Kind(
            partial(ClassifierHead, softmax=False), ("probabilities",), {}
        ),
    }
)
"""Those that say what an image shows, not where."""
KEYPOINTS: Mapping[str, _Kind[KeypointHead]] = MappingProxyType(
    {
        "keypoints": _Kind[KeypointHead](
            RegressedHead,
            ("keypoints",),
            {"keypoints": ANY, "normalized": ANY, "scores": _SHARES},
        ),
        "heatmaps": _Kind[KeypointHead](
            HeatmapHead, ("a map for each keypoint",), {"scores": _SHARES}
        ),
        "anchored-keypoints": _Kind[KeypointHead](
            AnchoredHead,
            ("scores", "offsets"),
            {"strides": ANY, "anchors_per_cell": ANY, "scores": _SHARES},
            any_number=True,
        ),
    }
)
"""Those that say where the parts of the one object in an image are."""


def build_head(card: ModelCard) -> Head:
    """The decoder of a detector, set up for the card's size and classes.

    Raises:
        ModelError: No such head, the card names another number of outputs or an option
            that the head does not know, or it is a second network's.
    """
    for kinds, what in ((CLASSIFIERS, "a classifier"), (KEYPOINTS, "a keypoint model")):
        if card.head in kinds:
            raise ModelError(
                f"model {card.name!r} is {what} (head {card.head!r}): it goes under "
                f"classifiers, beside a detector"
            )
    return _build(card, DETECTORS)


def build_classifier(card: ModelCard) -> ClassifierHead:
    """The decoder of a classifier.

    Raises:
        ModelError: As :func:`build_head`, or it is a detector's.
    """
    if card.head in DETECTORS or card.head in KEYPOINTS:
        what = "a detector" if card.head in DETECTORS else "a keypoint model"
        known = ", ".join(sorted(CLASSIFIERS))
        raise ModelError(
            f"model {card.name!r} is {what} (head {card.head!r}), no classifier "
            f"(their heads: {known})"
        )
    return _build(card, CLASSIFIERS)


def build_keypoints(card: ModelCard) -> KeypointHead:
    """The decoder of a keypoint model.

    Raises:
        ModelError: As :func:`build_head`, or its keypoints have not a name each.
    """
    if len(set(card.class_names)) != len(card.class_names):
        raise ModelError(
            f"model {card.name!r}: each keypoint (classes) needs a name of its own"
        )
    return _build(card, KEYPOINTS)


def build_reader(card: ModelCard) -> Reader:
    """What reads the model's outputs, whatever they are.

    Raises:
        ModelError: No such head, or the card does not fit it.
    """
    if card.head in CLASSIFIERS:
        return build_classifier(card)
    if card.head in KEYPOINTS:
        return build_keypoints(card)
    return build_head(card)


def suppresses(head: str) -> bool:
    """Whether a detector's boxes go through NMS; true of a head that is not known."""
    kind = DETECTORS.get(head)
    return kind is None or kind.suppresses


def unfit_options(head: str, options: HeadOptions) -> Iterator[tuple[str, str]]:
    """Options that a head does not use, and values that it does not know: key, why.

    Nothing of a head that does not exist.
    """
    known = _options(head)
    if known is None:
        return
    for key, value in options.said().items():
        allowed = known.get(key)
        if allowed is None:
            uses = ", ".join(known) or "none"
            yield key, f"head {head!r} has no use for it (it uses: {uses})"
        elif allowed and value not in allowed:
            these = ", ".join(map(str, allowed))
            yield key, f"head {head!r} knows {these}, not {value}"


def _options(head: str) -> Mapping[str, tuple[object, ...]] | None:
    """The options that a head knows; None of one that does not exist."""
    kind = DETECTORS.get(head) or CLASSIFIERS.get(head) or KEYPOINTS.get(head)
    return None if kind is None else kind.options


def _build(card: ModelCard, kinds: Mapping[str, _Kind[R]]) -> R:
    kind = kinds.get(card.head)
    if kind is None:
        known = ", ".join(sorted([*DETECTORS, *CLASSIFIERS, *KEYPOINTS]))
        raise ModelError(
            f"model {card.name!r}: unknown head {card.head!r} (known: {known})"
        )
    for key, why in unfit_options(card.head, card.head_options):
        raise ModelError(f"model {card.name!r}: head.{key}: {why}")
    _require_number(card, kind)
    return kind.build(card)


def _require_number(card: ModelCard, kind: _Kind[Any]) -> None:
    """As many outputs as the head reads."""
    least, most = len(kind.reads), len(kind.reads) + len(kind.optional)
    if kind.any_number or least <= len(card.outputs) <= most:
        return
    number = f"{least}" if least == most else f"{least} to {most}"
    raise ModelError(
        f"model {card.name!r}: head {card.head!r} reads {number} "
        f"output(s) ({'; '.join((*kind.reads, *kind.optional))}), the card names "
        f"{len(card.outputs)}"
    )


def check_outputs(card: ModelCard, head: Reader, outputs: Outputs) -> None:
    """Compare what the network really puts out with what its head will read.

    Raises:
        ModelError: A shape differs; a wrong number of classes is named as such.
    """
    shapes = [outputs[name].shape[1:] for name in card.outputs]
    _require_classes(card, head, shapes[0])
    for name, shape, expected in zip(card.outputs, shapes, head.shapes, strict=True):
        if not _fits(shape, expected):
            raise ModelError(
                f"model {card.name!r}: output {name!r} has shape {shape}, head "
                f"{card.head!r} at {card.width}x{card.height} needs {_shown(expected)}"
            )


def _require_classes(card: ModelCard, head: Reader, shape: tuple[int, ...]) -> None:
    """As many classes in the first output as the card has names.

    Only the class count can be wrong in this way; any other difference of the shape is
    reported as a shape.
    """
    wanted, names = head.shapes[0], len(card.class_names)
    if wanted is not None and (
        len(shape) != len(wanted)
        or sum(b not in (None, a) for a, b in zip(shape, wanted, strict=True)) != 1
    ):
        return
    classes = head.classes_in(shape)
    if classes == names:
        return
    what = "keypoints" if card.head in KEYPOINTS else "classes"
    hint = ""
    if classes == names + 1 and "background" in (_options(card.head) or ()):
        hint = " (if one of them is the background, say so in head.background)"
    raise ModelError(
        f"model {card.name!r}: output {card.outputs[0]!r} has {classes} {what}, the "
        f"card has {names} class names{hint}"
    )


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    if wanted is None:
        return True
    return len(shape) == len(wanted) and all(
        size in (None, found) for found, size in zip(shape, wanted, strict=True)
    )


def _shown(shape: Shape) -> str:
    """A shape as Python writes it, with n for any size."""
    sizes = ["n" if size is None else str(size) for size in shape or ()]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
