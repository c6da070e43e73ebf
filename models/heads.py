"""The decoders by name, and the check that a model's outputs fit its decoder."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from edgepipe.errors import ModelError
from edgepipe.models.candidates import Head
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.heads_distance import DistanceHead, NanoDetHead
from edgepipe.models.heads_yolo import YoloV5Head, YoloV8Head


class _Kind(NamedTuple):
    build: Callable[[ModelCard], Head]
    reads: tuple[str, ...]
    """What each of the card's outputs is, in order."""


BY_NAME: Mapping[str, _Kind] = MappingProxyType(
    {
        "nanodet": _Kind(NanoDetHead, ("scores", "distance bins")),
        "distances": _Kind(DistanceHead, ("scores", "distances")),
        "yolov8": _Kind(YoloV8Head, ("boxes and scores",)),
        "yolov5": _Kind(YoloV5Head, ("boxes, objectness and scores",)),
    }
)


def build_head(card: ModelCard) -> Head:
    """The decoder that the card names, set up for the card's size and classes.

    Raises:
        ModelError: No such head, or the card names another number of outputs.
    """
    kind = BY_NAME.get(card.head)
    if kind is None:
        known = ", ".join(sorted(BY_NAME))
        raise ModelError(
            f"model {card.name!r}: unknown head {card.head!r} (known: {known})"
        )
    if len(card.outputs) != len(kind.reads):
        raise ModelError(
            f"model {card.name!r}: head {card.head!r} reads {len(kind.reads)} "
            f"output(s) ({'; '.join(kind.reads)}), the card names {len(card.outputs)}"
        )
    return kind.build(card)


def check_outputs(card: ModelCard, head: Head, outputs: Outputs) -> None:
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
