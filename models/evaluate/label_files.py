"""Reading labels: COCO's JSON, MOTChallenge's text, a folder in YOLO's form."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.models.evaluate.labels_coco import read_coco
from edgepipe.models.evaluate.labels_mot import read_mot
from edgepipe.models.evaluate.labels_yolo import read_yolo
from edgepipe.models.evaluate.truths import Labels, Objects

_NUMBER = re.compile(r"([0-9]+)(?!.*[0-9])")


def read_labels(path: Path) -> Labels:
    """Read labels of a form that is told by the path.

    A folder is in YOLO's form, ``.json`` in COCO's, ``.txt`` and ``.csv`` in
    MOTChallenge's. A file of labels belongs to an image of its name; where a recording
    has no names, to the frame of the number at the end of its name. These count from
    0 where one is 0, and from 1 otherwise.

    Raises:
        InputError: It cannot be read, or something in it makes no sense; the message
            names the place.
    """
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        names, objects = read_yolo(path, files)
        return _named(names, objects, True, _sha256(files))
    if path.suffix.lower() == ".json":
        coco = read_coco(path, text_of(path))
        labels = _named(coco.names, coco.objects, False, _sha256([path]))
        return replace(labels, image_ids=coco.image_ids, category_ids=coco.category_ids)
    if path.suffix.lower() in (".txt", ".csv"):
        names, numbered, notes = read_mot(path, text_of(path))
        return Labels(names, numbered, {}, False, _sha256([path]), notes)
    raise InputError(
        f"{path}: expected a .json (COCO), a .txt (MOTChallenge) or a folder (YOLO)"
    )


def text_of(path: Path) -> str:
    """The text of a file, a byte order mark left out.

    Raises:
        InputError: It cannot be read or is no text.
    """
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text: {error.reason}") from error


def _named(
    names: tuple[str, ...],
    objects: Mapping[str, Objects],
    normalised: bool,
    sha256: str,
) -> Labels:
    """Labels of images with names; numbered as well if every name has a number."""
    found = [_NUMBER.search(name) for name in objects]
    numbers = [int(match.group(1)) for match in found if match is not None]
    by_number: dict[int, Objects] = {}
    if len(set(numbers)) == len(objects) and numbers:
        first = min(1, *numbers) if len(numbers) > 1 else min(1, numbers[0])
        shifted = (number - first for number in numbers)
        by_number = dict(zip(shifted, objects.values(), strict=True))
    return Labels(names, by_number, objects, normalised, sha256)


def _sha256(paths: Iterable[Path]) -> str:
    """Of names and contents."""
    digest = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        digest.update(f"{path.name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
