"""From the address of a camera to a source that keeps it open."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlsplit

from edgepipe.errors import InputError, InUseError
from edgepipe.pipeline.source import SourceInfo
from edgepipe.stages.sources.camera import Camera
from edgepipe.stages.sources.life import Patience
from edgepipe.stages.sources.live import LiveSource
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.environment import hide_credentials

MOST_PIXELS = 16384
"""Widest or highest picture that can be asked for."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What can be asked of a camera besides its address."""

    patience: Patience = field(default_factory=Patience)
    transport: str = "tcp"
    """Of RTSP: ``tcp`` or ``udp``."""
    trusts_clock: bool = False
    """Of RTSP: whether the camera's wall clock agrees with this machine's."""
    decoder: str = "software"
    """Of RTSP: ``software``, ``nvdec`` for a Jetson's, ``auto`` for it where it is."""
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
    if uri.startswith("/dev/"):
        uri = f"v4l2:{uri}"
    scheme = uri.partition(":")[0].lower()
    camera = OPENERS[scheme](uri, shown, options, fps)
    info = SourceInfo(shown, 0, 0, fps, codec="", live=True)
    return LiveSource(camera, info, options.patience, required=options.required)


def _rtsp(uri: str, shown: str, options: LiveOptions, fps: float | None) -> Camera:
    del fps
    _address(uri, shown)
    if uri.lower().startswith("rtsps:") and options.transport == "udp":
        raise InputError(f"{shown}: rtsps: needs the transport tcp")
    from edgepipe.stages.sources.gst_decoder import why_not
    from edgepipe.stages.sources.rtsp import RtspCamera

    if options.decoder == "nvdec" and (why := why_not()):
        raise InputError(f"{shown}: decoder nvdec: {why}")
    return RtspCamera(
        uri,
        options.transport,
        options.patience.connect_ns / 1e9,
        MonotonicClock(),
        trusts_clock=options.trusts_clock,
        decoder=options.decoder,
    )


def _v4l2(uri: str, shown: str, options: LiveOptions, fps: float | None) -> Camera:
    del options
    from edgepipe.stages.sources.v4l2 import V4l2Camera, Wanted
    from edgepipe.stages.sources.v4l2_kernel import LinuxKernel

    where, _, query = uri.partition(":")[2].partition("?")
    asked = queried(shown, query, {"width": int, "height": int, "format": str})
    path = _device(shown, where)
    wanted = Wanted(
        _size(shown, asked, "width"), _size(shown, asked, "height"), fps, _code(asked)
    )
    camera = V4l2Camera(path, wanted, LinuxKernel(), MonotonicClock())
    taken = camera.other_edgepipe()
    if taken:
        raise InUseError(f"{shown}: {taken}")
    return camera


def _csi(uri: str, shown: str, options: LiveOptions, fps: float | None) -> Camera:
    from edgepipe.stages.sources.gst_camera import (
        CSI_CAMERA,
        CSI_CONVERTER,
        GstCamera,
        csi,
    )
    from edgepipe.stages.sources.gstreamer import why_not

    where, _, query = uri.partition(":")[2].removeprefix("//").partition("?")
    if not (where.isascii() and where.isdecimal() and len(where) <= 2):
        raise InputError(f"{shown}: expected csi:0?width=1280&height=720&fps=30")
    asked = queried(shown, query, {"width": int, "height": int, "fps": int})
    rate = fps or _within(shown, asked, "fps", 1000) or 30
    why = why_not([CSI_CAMERA, CSI_CONVERTER])
    if why:
        raise InputError(f"{shown}: {why}: CSI cameras are those of a Jetson")
    size = _size(shown, asked, "width") or 1280, _size(shown, asked, "height") or 720
    connect_s = options.patience.connect_ns / 1e9
    chain = csi(int(where), *size, rate)
    return GstCamera(chain, rate, connect_s, MonotonicClock())


def _device(shown: str, where: str) -> str:
    """The path of a device, or of the link that bears its name."""
    if where.startswith("//"):
        where = where[2:]
    if where.startswith("/"):
        return where
    if not where or "/" in where or where in (".", ".."):
        raise InputError(f"{shown}: expected v4l2:///dev/video0 or v4l2:NAME")
    # udev names devices by what they are and by where they are plugged in.
    folder = "by-path" if where.startswith(("pci-", "platform-")) else "by-id"
    return f"/dev/v4l/{folder}/{where}"


def queried(
    shown: str, query: str, known: Mapping[str, type[int] | type[str]]
) -> dict[str, int | str]:
    """The values behind the ``?`` of an address.

    Raises:
        InputError: A key is not known or given twice, or a value is no number.
    """
    found: dict[str, int | str] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            keys = ", ".join(known)
            raise InputError(f"{shown}: unknown key {key!r} (known: {keys})")
        if key in found:
            raise InputError(f"{shown}: {key} is given twice")
        if known[key] is int and not (text.isascii() and text.isdecimal()):
            raise InputError(f"{shown}: {key}: expected a whole number, got {text!r}")
        found[key] = known[key](text)
    return found


def _size(shown: str, asked: Mapping[str, int | str], key: str) -> int | None:
    return _within(shown, asked, key, MOST_PIXELS)


def _within(
    shown: str, asked: Mapping[str, int | str], key: str, most: int
) -> int | None:
    value = asked.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{shown}: {key}: {value} is not within 1 .. {most}")
    return value


def _code(asked: Mapping[str, int | str]) -> str | None:
    """A four-character code, also written in lower case or without its blanks."""
    value = asked.get("format")
    return None if value is None else str(value).upper().ljust(4)


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

OPENERS: Mapping[str, Opener] = {
    "rtsp": _rtsp,
    "rtsps": _rtsp,
    "v4l2": _v4l2,
    "csi": _csi,
}
"""By scheme."""
