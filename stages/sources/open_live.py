"""From the address of a camera to a source that keeps it open."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from edgepipe.errors import InputError
from edgepipe.pipeline.source import SourceInfo
from edgepipe.stages.sources.camera import Camera
from edgepipe.stages.sources.life import Patience
from edgepipe.stages.sources.live import LiveSource
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.environment import hide_credentials


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What can be asked of a camera besides its address."""

    patience: Patience = field(default_factory=Patience)
    transport: str = "tcp"
    """Of RTSP: ``tcp`` or ``udp``."""
    trusts_clock: bool = False
    """Of RTSP: whether the camera's wall clock agrees with this machine's."""
    required: bool = False
    """Whether it is an error if there is no picture at the start."""


def open_live(uri: str, options: LiveOptions, fps: float | None = None) -> LiveSource:
    """Begin to open a camera; it is opened again whenever it is lost.

    Args:
        uri: Its address; the scheme decides what opens it.
        options: What else is asked of it.
        fps: The rate that is wanted where a camera can be told, or else expected.

    Raises:
        InputError: The address is wrong, or it is required and not there.
    """
    shown = hide_credentials(uri)
    scheme = uri.partition(":")[0].lower()
    camera = OPENERS[scheme](uri, shown, options, fps)
    info = SourceInfo(shown, 0, 0, fps, codec="", live=True)
    return LiveSource(camera, info, options.patience, required=options.required)


def _rtsp(uri: str, shown: str, options: LiveOptions, fps: float | None) -> Camera:
    del fps
    _address(uri, shown)
    if uri.lower().startswith("rtsps:") and options.transport == "udp":
        raise InputError(f"{shown}: rtsps: needs the transport tcp")
    from edgepipe.stages.sources.rtsp import RtspCamera

    return RtspCamera(
        uri,
        options.transport,
        options.patience.connect_ns / 1e9,
        MonotonicClock(),
        trusts_clock=options.trusts_clock,
    )


def _address(uri: str, shown: str) -> SplitResult:
    """The parts of an address with a host."""
    if not uri.isprintable() or " " in uri:
        raise InputError(f"{shown!r}: an address has no blanks")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{shown}: not an address: {error}") from None
    if not parts.hostname or port == 0:
        raise InputError(f"{shown}: expected rtsp://host:port/path")
    return parts


Opener = Callable[[str, str, LiveOptions, float | None], Camera]

OPENERS: Mapping[str, Opener] = {"rtsp": _rtsp, "rtsps": _rtsp}
"""By scheme."""
