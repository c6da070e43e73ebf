"""What is to be seen in a recording: labels of a file, or what a scene was drawn of."""

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np

from edgepipe.errors import InputError
from edgepipe.models.card import ModelCard
from edgepipe.models.evaluate.label_files import read_labels
from edgepipe.models.evaluate.labels_mot import SAME_AS
from edgepipe.models.evaluate.matching import Truth
from edgepipe.models.evaluate.truths import ClassMap
from edgepipe.samples import Sample
from edgepipe.stages.sources.open import local_path, scheme_of
from edgepipe.stages.sources.scene import CLASS_NAMES
from edgepipe.stages.sources.synthetic import SyntheticSource


class FrameTruth(Protocol):
    """What is to be seen in the frames of one recording, in captured pixels."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    @property
    def sha256(self) -> str | None:
        """Of its files; None if there are none."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        ...

    def of(self, sample: Sample) -> Truth | None:
        """What is to be seen in a frame; None if nobody said."""
        ...

    def image_id(self, sample: Sample) -> int:
        """Number of a frame among results: the labels' own, or counted from 1."""
        ...

    def category_ids(self) -> list[int]:
        """Number of each of the network's classes: the labels', or counted from 1."""
        ...


def truth_of(source: str, labels: str | None, card: ModelCard) -> FrameTruth | None:
    """What is known of a recording; None: nothing that this network could be asked.

    Args:
        source: The recording.
        labels: Path of its labels; None: only drawn scenes are known.
        card: Of the network.

    Raises:
        InputError: The labels cannot be read, or name no class of the network.
    """
    if labels is not None:
        return LabelTruth(Path(labels), source, card)
    if scheme_of(source) == "synthetic":
        scene = SceneTruth(source, card)
        return scene if scene.is_known else None
    return None


class LabelTruth:
    """Labels of a file or folder.

    Args:
        path: Where they lie.
        source: The recording, whose images may have names.
        card: Of the network.

    Raises:
        InputError: They cannot be read, or name no class of the network.
    """

    def __init__(self, path: Path, source: str, card: ModelCard) -> None:
        self._labels = read_labels(path)
        self.name = path.name
        self.sha256: str | None = self._labels.sha256
        # Without names of its own, a class is the network's of that number.
        names = self._labels.names or card.class_names
        self._classes = ClassMap(names, card.class_names, SAME_AS)
        if len(self._classes.unmapped) == len(names):
            raise InputError(
                f"{path}: none of its classes ({', '.join(names[:5])}) is one of the"
                f" network's ({', '.join(card.class_names[:5])}, ...)"
            )
        self.notes = self._labels.notes
        if self._classes.unmapped and self._labels.by_name:
            unmapped = ", ".join(self._classes.unmapped)
            self.notes += (f"classes that the network does not have: {unmapped}",)
        self._images = _image_names(source)
        self._known, self._size = len(names), len(card.class_names)

    def of(self, sample: Sample) -> Truth | None:
        """What the labels say of a frame.

        Raises:
            InputError: A class has no name.
        """
        name = self._name(sample.sequence)
        objects = self._labels.of(sample.sequence, name)
        if objects is None:
            return None
        if len(objects.label) and objects.label.max() >= self._known:
            raise InputError(
                f"{self.name}: class {objects.label.max()} has no name: put the names"
                f" into classes.txt beside the labels"
            )
        whole = (1.0, 1.0)
        scale = sample.size if self._labels.normalised else whole
        return self._classes.truth(objects, (float(scale[0]), float(scale[1])))

    def image_id(self, sample: Sample) -> int:
        """COCO's number of the image, or the frame's from 1."""
        name = self._name(sample.sequence)
        ids = self._labels.image_ids
        if name is None and ids:
            objects = self._labels.by_number.get(sample.sequence)
            name = next(
                (k for k, o in self._labels.by_name.items() if o is objects), ""
            )
        return ids.get(name or "", sample.sequence + 1)

    def category_ids(self) -> list[int]:
        """COCO's numbers, or those of the classes from 1."""
        # Not strict: labels of other forms number nothing.
        ids = dict(
            zip(self._classes.to_network, self._labels.category_ids, strict=False)
        )
        return [ids.get(k, k + 1) for k in range(self._size)]

    def _name(self, sequence: int) -> str | None:
        if self._images is None or sequence >= len(self._images):
            return None
        return self._images[sequence]


class SceneTruth:
    """What a drawn scene was drawn of."""

    def __init__(self, source: str, card: ModelCard) -> None:
        self._source = SyntheticSource(source)
        self._classes = ClassMap(CLASS_NAMES, card.class_names)
        self._size = len(card.class_names)
        self.name = "what the scene was drawn of"
        self.sha256: str | None = hashlib.sha256(source.encode()).hexdigest()
        self.notes: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the network knows any class of the scene."""
        return len(self._classes.unmapped) < len(CLASS_NAMES)

    def of(self, sample: Sample) -> Truth:
        """The visible objects of a frame."""
        drawn = self._source.truth(sample.sequence)
        class_id = np.array(self._classes.to_network)[drawn.class_id]
        known = class_id >= 0
        return Truth.of(drawn.xyxy[known], class_id[known])

    def image_id(self, sample: Sample) -> int:
        """Counted from 1."""
        return sample.sequence + 1

    def category_ids(self) -> list[int]:
        """Counted from 1."""
        return list(range(1, self._size + 1))


def _image_names(source: str) -> list[str | None] | None:
    """Names of a folder's images in the order of showing; None for anything else."""
    from edgepipe.stages.sources.layouts import find_layout

    path = local_path(source) if scheme_of(source) in ("", "file") else None
    if path is None or not path.is_dir():
        return None
    images = find_layout(path, source).images
    return [None if image is None else image.stem for image in images]
