"""A folder of images, or one image, as a source."""

import re
from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import Arrival, DamagedError, SourceInfo
from edgepipe.stages.sources.open import IMAGE_SUFFIXES
from edgepipe.stages.sources.stills import read_still

ASSUMED_FPS = 25.0
"""Rate at which images are shown when nobody says."""


class FolderSource:
    """Shows images in the natural order of their names, so that 2 comes before 10.

    Sizes may differ from image to image; the size in ``info`` is that of the first
    that can be read.

    Attributes:
        warnings: What was assumed, one line each.
    """

    def __init__(
        self, path: Path, uri: str, *, loop: bool = False, fps: float | None = None
    ) -> None:
        self._paths = _images(path, uri)
        self._loop = loop
        self._next = 0
        self.warnings: tuple[str, ...] = ()
        if fps is None:
            self.warnings = (f"images have no rate: assumed {ASSUMED_FPS:g} fps",)
        self._rate = fps or ASSUMED_FPS
        first = self._first_readable(uri)
        self._info = SourceInfo(
            uri,
            width=first.width,
            height=first.height,
            fps=self._rate,
            codec="image",
            live=False,
        )

    @property
    def info(self) -> SourceInfo:
        """Size of the first image, and the rate."""
        return self._info

    @property
    def end_state(self) -> tuple[str, str]:
        """A folder ends when its images have been shown."""
        return "ended", ""

    def next_arrival(self) -> Arrival | None:
        """The next image by name; it is not read yet."""
        index = self._next
        if index >= len(self._paths) and not self._loop:
            return None
        self._next += 1
        return Arrival(index, round(index * 1e9 / self._rate))

    def decode(self, index: int) -> Picture:
        """Read and decode one image; others are not touched."""
        path = self._paths[index % len(self._paths)]
        picture = read_still(path)
        if picture is None:
            raise DamagedError(f"{path}: cannot be read as an image")
        return picture

    def close(self) -> None:
        """Nothing is kept open."""

    def _first_readable(self, uri: str) -> Picture:
        for path in self._paths:
            picture = read_still(path)
            if picture is not None:
                return picture
        raise InputError(f"{uri}: none of {len(self._paths)} images can be read")


def _images(path: Path, uri: str) -> list[Path]:
    try:
        paths = [path] if path.is_file() else list(path.iterdir())
    except OSError as error:
        raise InputError(f"{uri}: {error.strerror}") from error
    images = [p for p in paths if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file()]
    if not images:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise InputError(f"{uri}: no images in this folder (looked for {kinds})")
    return sorted(images, key=lambda image: _natural(image.name))


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sorts runs of digits by value; the name itself settles ties (1 and 01)."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name.casefold())
    return [(int(p), "") if p[0].isdecimal() else (-1, p) for p in parts], name
