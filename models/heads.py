"""The decoders by name, and the check that a model's outputs fit its decoder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from edgepipe.errors import ModelError
from edgepipe.models.candidates import Head, Reader
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.heads_classifier import ClassifierHead
from edgepipe.models.heads_distance import DistanceHead, NanoDetHead
from edgepipe.models.heads_yolo import YoloV5Head, YoloV8Head

R = TypeVar("R", bound=Reader)


@dataclass(frozen=True)
class _Kind(Generic[R]):
    build: Callable[[ModelCard], R]
    reads: tuple[str, ...]
    """What each of the card's outputs is, in order."""


DETECTORS: Mapping[str, _Kind[Head]] = MappingProxyType(
    {
        "nanodet": _Kind[Head](NanoDetHead, ("scores", "distance bins")),
        "distances": _Kind[Head](DistanceHead, ("scores", "distances")),
        "yolov8": _Kind[Head](YoloV8Head, ("boxes and scores",)),
        "yolov5": _Kind[Head](YoloV5Head, ("boxes, objectness and scores",)),
    }
)
CLASSIFIERS: Mapping[str, _Kind[ClassifierHead]] = MappingProxyType(
    {
        "classifier": _Kind(partial(ClassifierHead, softmax=True), ("scores",)),
        "probabilities": _Kind(
            partial(ClassifierHead, softmax=False), ("probabilities",)
        ),
    }
)
"""Those that say what an image shows, not where."""


def build_head(card: ModelCard) -> Head:
    """The decoder of a detector, set up for the card's size and classes.

    Raises:
        ModelError: No such head, the card names another number of outputs, or it is a
            classifier's.
    """
    if card.head in CLASSIFIERS:
        raise ModelError(
            f"model {card.name!r} is a classifier (head {card.head!r}): it goes under "
            f"classifiers, beside a detector"
        )
    return _build(card, DETECTORS)


def build_classifier(card: ModelCard) -> ClassifierHead:
    """The decoder of a classifier.

    Raises:
        ModelError: As :func:`build_head`, or it is a detector's.
    """
    if card.head in DETECTORS:
        known = ", ".join(sorted(CLASSIFIERS))
        raise ModelError(
            f"model {card.name!r} is a detector (head {card.head!r}), no classifier "
            f"(their heads: {known})"
        )
    return _build(card, CLASSIFIERS)


def build_reader(card: ModelCard) -> Reader:
    """What reads the model's outputs, whatever they are.

    Raises:
        ModelError: No such head, or the card names another number of outputs.
    """
    if card.head in CLASSIFIERS:
        return build_classifier(card)
    return build_head(card)


def _build(card: ModelCard, kinds: Mapping[str, _Kind[R]]) -> R:
    kind = kinds.get(card.head)
    if kind is None:
        known = ", ".join(sorted([*DETECTORS, *CLASSIFIERS]))
        raise ModelError(
            f"model {card.name!r}: unknown head {card.head!r} (known: {known})"
        )
    if len(card.outputs) != len(kind.reads):
        raise ModelError(
            f"model {card.name!r}: head {card.head!r} reads {len(kind.reads)} "
            f"output(s) ({'; '.join(kind.reads)}), the card names {len(card.outputs)}"
        )
    return kind.build(card)


def check_outputs(card: ModelCard, head: Reader, outputs: Outputs) -> None:
    """Compare what the network really puts out with what its head will read.

    Raises:
        ModelError: A shape differs; a wrong number of classes is named as such.
    """
    shapes = [outputs[name].shape[1:] for name in card.outputs]
    first, wanted = shapes[0], head.shapes[0]
    if len(first) == len(wanted):
        classes = head.classes_in(first)
        # Only the class count can be wrong in this way; any other difference of the
        # shape is reported as a shape.
        same_but_classes = sum(a != b for a, b in zip(first, wanted, strict=True)) == 1
        if same_but_classes and classes != head.classes_in(wanted):
            raise ModelError(
                f"model {card.name!r}: output {card.outputs[0]!r} has {classes} "
                f"classes, the card has {len(card.class_names)} class names"
            )
    for name, shape, expected in zip(card.outputs, shapes, head.shapes, strict=True):
        if shape != expected:
            raise ModelError(
                f"model {card.name!r}: output {name!r} has shape {shape}, head "
                f"{card.head!r} at {card.width}x{card.height} needs {expected}"
            )
