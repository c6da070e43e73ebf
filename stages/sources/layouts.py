"""How data sets lay out their images, and where they say when each was taken."""

import re
from collections.abc import Sequence
from configparser import ConfigParser, Error
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from edgepipe.errors import InputError
from edgepipe.stages.sources.open import IMAGE_SUFFIXES
from edgepipe.stages.sources.stamp_file import Stamp, StampError, parse_stamps

_INSIDE = ("image_02", "image_2", "image_00", "image_0", "mav0", "cam0", "rgb")
_FOLDERS = (*_INSIDE, "img1", "data", "images")
"""Folders in which a data set keeps its images; of several cameras one is taken."""
_DEEPEST = 3
_STAMP_FILES = ("data.csv", "timestamps.txt", "times.txt", "timestamps.csv", "rgb.txt")
_SEQUENCE = "seqinfo.ini"
_MOST_BYTES = 64 << 20


class Layout(NamedTuple):
    """The images of a folder, each with its time if that is known."""

    images: Sequence[Path | None]
    """In the order of showing; None where one that should be there is missing."""
    stamps_ns: Sequence[int] | None
    """One for each of ``images``; None where only a rate tells the time."""
    fps: float | None
    """The rate that the data set says, if it says one instead of stamps."""
    said: tuple[str, ...]
    """What was found and what was repaired, one line each."""


def find_layout(path: Path, uri: str) -> Layout:
    """Look at a folder, or at one image.

    Raises:
        InputError: There is no image in it, or its list of stamps does not fit.
    """
    if path.is_file():
        return Layout([path], None, None, ())
    folder = _folder_of_images(path, uri)
    said = () if folder == path else (f"images are those in {folder}",)
    images = _images(folder, uri)
    # Beside the images, or beside their folder.
    for place in (folder, folder.parent):
        if (place / _SEQUENCE).is_file():
            layout = _numbered(images, place / _SEQUENCE)
            return layout._replace(said=said + layout.said)
        for name in _STAMP_FILES:
            file = place / name
            if file.is_file() and (place == folder or _belongs(file, folder)):
                layout = _stamped(images, file)
                return layout._replace(said=said + layout.said)
    return Layout(images, None, None, said)


def _belongs(file: Path, folder: Path) -> bool:
    """Whether a file beside a folder speaks of the images in that folder."""
    return folder.name in _FOLDERS or file.name == "data.csv"


def _folder_of_images(path: Path, uri: str) -> Path:
    folder = path
    for _ in range(_DEEPEST):
        if _paths(folder, uri):
            return folder
        inside = [folder / name for name in _FOLDERS if (folder / name).is_dir()]
        if not inside:
            break
        folder = inside[0]
    if _paths(folder, uri):
        return folder
    kinds = " ".join(sorted(IMAGE_SUFFIXES))
    raise InputError(f"{uri}: no images in this folder (looked for {kinds})")


def _paths(folder: Path, uri: str) -> list[Path]:
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise InputError(f"{uri}: {error.strerror}") from error
    return [p for p in found if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file()]


def _images(folder: Path, uri: str) -> list[Path]:
    return sorted(_paths(folder, uri), key=lambda image: _natural(image.name))


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sorts runs of digits by value; the name itself settles ties (1 and 01)."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name.casefold())
    return [(int(p), "") if p[0].isdecimal() else (-1, p) for p in parts], name


# --- MOTChallenge: numbered images, and a rate ----------------------------------------


def _numbered(images: Sequence[Path], file: Path) -> Layout:
    settings = ConfigParser(interpolation=None)
    try:
        settings.read_string(file.read_text("utf-8-sig"))
        sequence = settings["Sequence"]
        fps = sequence.getfloat("frameRate")
        length = sequence.getint("seqLength", 0)
    except (OSError, ValueError, KeyError, Error) as error:
        words = str(error).splitlines()[0]
        raise InputError(
            f"{file}: expected frameRate in [Sequence]: {words}"
        ) from error
    if fps is None or not 0 < fps <= 10_000:
        raise InputError(f"{file}: frameRate: expected 0 .. 10000 fps, got {fps}")
    said = f"{file}: {fps:g} fps"
    numbers = _numbers(images)
    if numbers is None:
        return Layout(images, None, fps, (f"{said}; images are not numbered",))
    first = min(1, *numbers)
    last = max(length + first - 1 if length else 0, *numbers)
    places = dict(zip(numbers, images, strict=True))
    shown = [places.get(number) for number in range(first, last + 1)]
    return Layout(shown, None, fps, (said, *_missing(shown, file)))


def _numbers(images: Sequence[Path]) -> list[int] | None:
    """The numbers that images are called by, if all are and no two are the same."""
    stems = [image.stem for image in images]
    if not all(stem.isdecimal() and len(stem) < 12 for stem in stems):
        return None
    numbers = [int(stem) for stem in stems]
    # Numbers that leave out most are no numbers of frames.
    if len(set(numbers)) < len(numbers) or numbers[-1] - numbers[0] > 2 * len(numbers):
        return None
    return numbers


def _missing(shown: Sequence[Path | None], file: Path) -> list[str]:
    missing = sum(image is None for image in shown)
    return [f"{file}: {missing} of {len(shown)} images are missing"] if missing else []


# --- a stamp for each image -----------------------------------------------------------


def _stamped(images: Sequence[Path], file: Path) -> Layout:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputError(f"{file}: too large for a list of time stamps")
        found = parse_stamps(file.read_text("utf-8-sig", errors="replace"))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    except StampError as error:
        raise InputError(f"{file}: {error}") from error
    stamps = list(found.stamps)
    if not stamps:
        raise InputError(f"{file}: no time stamps in it")
    unit = "as dates" if found.unit == "date" else f"in {found.unit}"
    said = [f"{file}: {len(stamps)} time stamps {unit}"]
    if all(stamp.name is not None for stamp in stamps):
        shown = _by_name(images, stamps, file, said)
    else:
        shown = _by_place(images, stamps, file)
    said += _missing(shown, file)
    return Layout(shown, [stamp.ns for stamp in stamps], None, tuple(said))


def _by_name(
    images: Sequence[Path], stamps: list[Stamp], file: Path, said: list[str]
) -> list[Path | None]:
    """Each image at the stamp that names it; puts ``stamps`` in order."""
    if any(a.ns > b.ns for a, b in pairwise(stamps)):
        stamps.sort(key=lambda stamp: stamp.ns)
        said.append(f"{file}: time stamps were not in order and have been sorted")
    places = {image.name: image for image in images}
    shown = [places.pop(Path(stamp.name or "").name, None) for stamp in stamps]
    if not any(shown):
        raise InputError(f"{file}: it names none of {len(images)} images")
    if places:
        said.append(f"{file}: {len(places)} images are not in it and are left out")
    return shown


def _by_place(
    images: Sequence[Path], stamps: Sequence[Stamp], file: Path
) -> list[Path | None]:
    """The first image at the first stamp, or as the numbers of the images say."""
    if len(images) == len(stamps):
        return list(images)
    numbers = _numbers(images)
    first = 0 if numbers and numbers[0] == 0 else 1
    if numbers is None or numbers[-1] - first >= len(stamps):
        raise InputError(f"{file}: {len(stamps)} time stamps for {len(images)} images")
    places = dict(zip(numbers, images, strict=True))
    return [places.get(first + k) for k in range(len(stamps))]
