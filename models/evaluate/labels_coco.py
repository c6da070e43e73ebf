"""Labels and results as COCO keeps them: one JSON file."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

import numpy as np

from edgepipe.errors import InputError
from edgepipe.models.evaluate.matching import Detected
from edgepipe.models.evaluate.truths import Objects

_MOST = 1e12


class CocoLabels(NamedTuple):
    """What a file says; images go by their names."""

    names: tuple[str, ...]
    category_ids: tuple[int, ...]
    objects: dict[str, Objects]
    image_ids: dict[str, int]


def read_coco(path: Path, text: str) -> CocoLabels:
    """The categories, and the objects of each image.

    Crowds are crowds. An object without an area has that of its box.

    Raises:
        InputError: It is no JSON, or something in it makes no sense.
    """
    document = _parse(path, text)
    categories: dict[int, str] = {}
    for k, each in enumerate(_list(document, "categories", path)):
        where = f"{path}: categories[{k}]"
        number = _integer(each, "id", where)
        _require_new(number, categories, f"{where}: id")
        categories[number] = str(each.get("name"))
    labels = {number: k for k, number in enumerate(categories)}
    images: dict[int, str] = {}
    for k, each in enumerate(_list(document, "images", path)):
        where = f"{path}: images[{k}]"
        number = _integer(each, "id", where)
        _require_new(number, images, f"{where}: id")
        name = str(each.get("file_name", number)).replace("\\", "/")
        images[number] = PurePosixPath(name).stem
    _require_names_of_their_own(images, path)
    rows: dict[int, list[tuple[Any, ...]]] = {number: [] for number in images}
    for k, each in enumerate(_list(document, "annotations", path)):
        where = f"{path}: annotations[{k}]"
        image = _integer(each, "image_id", where)
        category = _integer(each, "category_id", where)
        if image not in rows or category not in labels:
            what = "image_id" if image not in rows else "category_id"
            raise InputError(f"{where}: {what} {each[what]} is not in the file")
        rows[image].append((*_box(each, where), labels[category], _area(each), each))
    return CocoLabels(
        tuple(categories.values()),
        tuple(categories),
        {images[number]: _objects(found) for number, found in rows.items()},
        {name: number for number, name in images.items()},
    )


def _require_new(number: int, before: Mapping[int, str], where: str) -> None:
    if number in before:
        raise InputError(f"{where}: {number} is there twice")


def _require_names_of_their_own(images: Mapping[int, str], path: Path) -> None:
    """Images go by their names: of two with one name, one's labels would be lost."""
    seen: dict[str, int] = {}
    for number, name in images.items():
        other = seen.setdefault(name, number)
        if other != number:
            raise InputError(
                f"{path}: images {other} and {number} are both called {name!r} (folders"
                f" and suffixes do not count): give each a name of its own"
            )


def results_of(
    image: int, found: Detected, category_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Detections of one image in COCO's form for results.

    Args:
        image: Its number.
        found: What was found in it, in captured pixels.
        category_ids: Number of each of the network's classes.
    """
    return [
        {
            "image_id": image,
            "category_id": category_ids[int(found.class_id[k])],
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "score": float(found.score[k]),
        }
        for k, (x1, y1, x2, y2) in enumerate(found.xyxy.astype(np.float64).tolist())
    ]


def _objects(rows: Sequence[tuple[Any, ...]]) -> Objects:
    # Some tools write it as a text.
    crowd = np.array([row[6].get("iscrowd") in (1, "1") for row in rows], np.bool_)
    boxes = np.array([row[:4] for row in rows], np.float64).reshape(-1, 4)
    own = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    told = np.array([row[5] for row in rows], np.float64)
    return Objects(
        boxes,
        np.array([row[4] for row in rows], np.int64),
        crowd,
        crowd,
        np.where(np.isnan(told), own, told),
    )


def _box(annotation: Mapping[str, Any], where: str) -> tuple[float, ...]:
    box: Any = annotation.get("bbox")
    given = cast(list[object], box) if isinstance(box, list) else []
    values = [_number(each) for each in given]
    if len(values) != 4 or any(map(math.isnan, values)):
        raise InputError(f"{where}: bbox: expected four numbers, got {box!r:.80}")
    x, y, width, height = values
    if width <= 0 or height <= 0:
        raise InputError(f"{where}: bbox: expected a size above 0, got {box!r}")
    return x, y, x + width, y + height


def _area(annotation: Mapping[str, Any]) -> float:
    return _number(annotation.get("area"))


def _number(value: object) -> float:
    """A number as it is; NaN for anything else and for what no picture can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) <= _MOST else math.nan


def _integer(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if type(value) is not int:
        raise InputError(f"{where}: {key}: expected a whole number, got {value!r}")
    return value


def _list(document: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    entries: Any = document.get(key)
    if not isinstance(entries, list):
        raise InputError(f"{path}: {key}: expected a list, got {entries!r:.40}")
    found = cast(list[dict[str, Any]], entries)
    for k, entry in enumerate(cast(list[object], entries)):
        if not isinstance(entry, dict):
            raise InputError(f"{path}: {key}[{k}]: expected an object")
    return found


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: no JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{path}: no JSON: {str(error).partition(';')[0]}") from error
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected an object with images and annotations")
    return cast(dict[str, Any], document)
