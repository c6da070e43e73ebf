"""Labels as they were read, before they meet a network's classes and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.evaluate.matching import Truth


@dataclass(frozen=True, slots=True)
class Objects:
    """What one label file, or one part of it, says of a frame."""

    xyxy: NDArray[np.float64]
    """(n, 4): pixels of the captured picture, or shares of its sides."""
    label: NDArray[np.int64]
    """(n,) index into the names of the labels."""
    ignore: NDArray[np.bool_]
    crowd: NDArray[np.bool_]
    area: NDArray[np.float64] | None
    """(n,) square pixels; None: that of the box."""


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels of a recording. A frame that they do not mention is not judged."""

    names: tuple[str, ...]
    """Of the labels' classes."""
    by_number: Mapping[int, Objects]
    """By number of the frame in its recording, from 0."""
    by_name: Mapping[str, Objects]
    """By name of the image without its suffix; used where a recording has names."""
    normalised: bool
    """Whether boxes are shares of the picture's sides."""
    sha256: str
    """Of the files."""
    notes: tuple[str, ...] = ()
    image_ids: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of each image by its name, where the labels number them."""
    category_ids: tuple[int, ...] = ()
    """Number of each of ``names``, where the labels number them."""

    def of(self, sequence: int, name: str | None) -> Objects | None:
        """What is said of a frame; None if nothing is."""
        if name is not None and self.by_name:
            return self.by_name.get(name)
        return self.by_number.get(sequence)


class ClassMap:
    """From the classes of labels to those of a network, by name.

    Case does not count, nor do blanks against underscores and hyphens.

    Args:
        labels: Names of the labels' classes.
        network: Names of the network's classes.
        same: Other names under which a class may go.
    """

    def __init__(
        self,
        labels: Sequence[str],
        network: Sequence[str],
        same: Mapping[str, Sequence[str]] = {},
    ) -> None:
        known = {plain(name): index for index, name in reversed([*enumerate(network)])}
        called = [[plain(n) for n in (name, *same.get(name, ()))] for name in labels]
        self.to_network = [
            next((known[name] for name in names if name in known), -1)
            for names in called
        ]
        """Index of each of the labels' classes in the network's; -1: it has none."""
        self.unmapped = [
            name for name, to in zip(labels, self.to_network, strict=True) if to < 0
        ]

    def truth(self, objects: Objects, scale: tuple[float, float]) -> Truth:
        """A frame's truth; objects of classes that the network lacks are left out.

        Args:
            objects: What the labels say.
            scale: What to multiply x and y by.
        """
        table = np.array([*self.to_network, -1], np.int64)
        class_id = table[objects.label]
        kept = class_id >= 0
        area = None if objects.area is None else objects.area[kept]
        return Truth.of(
            objects.xyxy[kept] * np.array([*scale, *scale]),
            class_id[kept],
            ignore=objects.ignore[kept],
            crowd=objects.crowd[kept],
            area=area,
        )


def plain(name: str) -> str:
    """A class name as it is compared."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())
