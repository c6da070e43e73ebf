"""Labels as YOLO trainers keep them: a folder with one text file for each image."""

from collections.abc import Sequence
from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.models.evaluate.label_lines import Row, numbers_of, objects_of, whole
from edgepipe.models.evaluate.truths import Objects

_NAME_FILES = ("classes.txt", "obj.names")
_SLACK = 1e-3
"""Rounding lets boxes end a little outside of the picture."""


def read_yolo(
    folder: Path, files: Sequence[Path]
) -> tuple[tuple[str, ...], dict[str, Objects]]:
    """Class names, and the objects of each image by its name.

    A line is class, centre x, centre y, width, height, as shares of the picture. Names
    of classes are in ``classes.txt`` or ``obj.names``, in the folder or beside it; they
    are empty where there is no such file.

    Raises:
        InputError: There is no label file, or a line makes no sense.
    """
    names_file = _names_file(folder)
    names: tuple[str, ...] = ()
    if names_file is not None:
        lines = _text(names_file).rstrip().splitlines()
        names = tuple(line.strip() for line in lines)
    labels = [f for f in files if f.name not in _NAME_FILES]
    if not labels:
        raise InputError(f"{folder}: no label files (looked for .txt)")
    objects = {file.stem: objects_of(_rows(file, len(names))) for file in labels}
    return names, objects


def _rows(file: Path, classes: int) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(_text(file).splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        where = f"{file}:{number}"
        if len(words) < 5:
            raise InputError(
                f"{where}: expected class, x, y, width, height, got {len(words)} values"
            )
        kind, x, y, width, height = numbers_of(words[:5], where)
        label = whole(kind, where, "class")
        if classes and label >= classes:
            raise InputError(f"{where}: class {label}, and there are {classes} names")
        edges = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        if width <= 0 or height <= 0 or min(edges) < -_SLACK or max(edges) > 1 + _SLACK:
            raise InputError(
                f"{where}: expected a box inside of 0..1, in shares of the picture"
            )
        rows.append((*edges, label, False))
    return rows


def _names_file(folder: Path) -> Path | None:
    places = [place / name for place in (folder, folder.parent) for name in _NAME_FILES]
    return next((place for place in places if place.is_file()), None)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
