"""Drawn scenes with exact boxes and identities as a source."""

from dataclasses import dataclass, fields
from math import isfinite
from urllib.parse import parse_qsl

from edgepipe.errors import InputError
from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.stages.sources.scene import Scene

_BOUNDS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**63 - 1),
    "width": (32, 8192),
    "height": (32, 8192),
    "fps": (0.001, 1000),
    "objects": (0, 200),
    "frames": (1, 2**31 - 1),
}


@dataclass(frozen=True, slots=True)
class SyntheticOptions:
    """What can be asked of a drawn scene, with what is drawn if nobody asks."""

    seed: int = 1
    width: int = 320
    height: int = 192
    fps: float = 30.0
    objects: int = 5
    frames: int = 300


class SyntheticSource:
    """Draws any frame of a scene, and knows what is in it.

    Attributes:
        scene: What is drawn; its ``truth(index)`` are the exact boxes.
        warnings: Empty: nothing is ever assumed.
    """

    def __init__(
        self, uri: str, *, loop: bool = False, fps: float | None = None
    ) -> None:
        options = parse_options(uri, fps)
        width, height = options.width, options.height
        self.scene = Scene(options.seed, width, height, options.objects)
        self.warnings: tuple[str, ...] = ()
        # A scene has no seam: "again and again" just means going on.
        self._frames = None if loop else options.frames
        self._rate = options.fps
        self._next = 0
        self._info = SourceInfo(
            uri, width, height, options.fps, codec="raw", live=False
        )

    @property
    def info(self) -> SourceInfo:
        """Size and rate as asked for."""
        return self._info

    @property
    def end_state(self) -> tuple[str, str]:
        """A scene ends when the frames asked for have been drawn."""
        return "ended", ""

    def next_arrival(self) -> Arrival | None:
        """The next frame; it is not drawn yet."""
        index = self._next
        if self._frames is not None and index >= self._frames:
            return None
        self._next += 1
        return Arrival(index, round(index * 1e9 / self._rate))

    def decode(self, index: int) -> Picture:
        """Draw a frame."""
        image = self.scene.image(index)
        image.flags.writeable = False
        return Picture(
            PixelFormat.BGR, (image,), self._info.width, self._info.height, owner=image
        )

    def truth(self, index: int) -> Detections:
        """What is to be seen in a frame: exact boxes, classes and identities."""
        return self.scene.truth(index)

    def close(self) -> None:
        """Nothing is kept open."""


def parse_options(uri: str, fps: float | None = None) -> SyntheticOptions:
    """Read ``synthetic:?key=value&...``; ``fps`` replaces the rate in the URI.

    Raises:
        InputError: A key is unknown or given twice, or a value is not in its bounds.
    """
    rest = uri.partition(":")[2].removeprefix("//")
    before, _, query = rest.partition("?")
    if before:
        raise InputError(f"{uri}: expected synthetic:?key=value, got {before!r}")
    given: dict[str, int | float] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InputError(f"{uri}: {error}") from error
    for key, text in pairs:
        if key not in _BOUNDS:
            raise InputError(
                f"{uri}: unknown key {key!r} (known: {', '.join(_BOUNDS)})"
            )
        if key in given:
            raise InputError(f"{uri}: {key} is given twice")
        given[key] = _number(uri, key, text)
    if fps is not None:
        given["fps"] = _number(uri, "fps", str(fps))
    return SyntheticOptions(**given)  # type: ignore[arg-type]  # checked by _number


def _number(uri: str, key: str, text: str) -> int | float:
    kind = {field.name: field.type for field in fields(SyntheticOptions)}[key]
    low, high = _BOUNDS[key]
    try:
        value = float(text) if kind is float else int(text)
    except ValueError:
        wanted = "a number" if kind is float else "a whole number"
        raise InputError(f"{uri}: {key}: expected {wanted}, got {text!r}") from None
    if not isfinite(value) or not low <= value <= high:
        raise InputError(f"{uri}: {key}: {text} is not within {low:g} .. {high:g}")
    return value
