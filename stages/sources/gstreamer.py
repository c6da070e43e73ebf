"""GStreamer: pipelines made of named elements, never of a text.

The only module that imports ``gi``, GStreamer's Python bindings, and it does so when a
pipeline is made. No user's text is ever read as a description of a pipeline: elements
are made by name, and their properties are set to checked values.
"""

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

PULL_NS = 100_000_000
"""How long one look for a sample waits."""


class MissingError(Exception):
    """GStreamer, or an element of it, is not on this machine; the message names it."""


class BrokenError(Exception):
    """The pipeline has failed or ended; the message says why."""


@dataclass(frozen=True, slots=True)
class Element:
    """One step of a chain."""

    factory: str
    properties: Mapping[str, object] = field(default_factory=dict[str, object])
    caps: str = ""
    """What may go from it to the next; empty: whatever both can."""


class Sample(NamedTuple):
    """A buffer that came out at the end of a chain."""

    data: bytes
    format: str
    """GStreamer's name of the pixel format; empty if it is no raw video."""
    width: int
    height: int
    bytes_per_line: int
    pts_ns: int | None
    clock_ns: int | None
    """The same on the system's monotonic clock; None if another one drives it."""


class _Library(NamedTuple):
    gst: Any
    video: Any


@cache
def _library() -> _Library:
    """GStreamer, loaded once.

    Raises:
        MissingError: It is not there.
    """
    # GStreamer brings libunwind, which has functions of the same names; whatever C++
    # is loaded after it would throw its exceptions into the wrong ones and abort.
    with suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)
    try:
        with catch_warnings():
            # Its way of importing is older than Python would like.
            simplefilter("ignore")
            gi: Any = import_module("gi")
            for name in ("Gst", "GstApp", "GstVideo"):
                gi.require_version(name, "1.0")
            gst: Any = import_module("gi.repository.Gst")
            import_module("gi.repository.GstApp")  # gives sinks and sources methods
            video: Any = import_module("gi.repository.GstVideo")
    except (ImportError, ValueError) as error:
        raise MissingError(
            f"GStreamer's Python bindings are not there ({error}):"
            " apt install python3-gi gir1.2-gst-plugins-base-1.0"
        ) from error
    gst.init(None)
    return _Library(gst, video)


def why_not(factories: Sequence[str]) -> str:
    """Why elements of these names cannot be made here; empty if they can."""
    try:
        gst = _library().gst
    except MissingError as error:
        return str(error)
    missing = [name for name in factories if gst.ElementFactory.find(name) is None]
    if missing:
        return f"this machine's GStreamer has no {' and no '.join(missing)}"
    return ""


class Chain:
    """Elements one behind the other, with an end from which samples are taken.

    Args:
        elements: From the first to the last; the end is added.
        samples: Most that wait at the end; then the oldest are dropped.
        keeps: Whether none is dropped, and the chain waits instead.

    Raises:
        MissingError: An element is not there.
        BrokenError: They do not fit together.
    """

    def __init__(
        self, elements: Sequence[Element], *, samples: int = 2, keeps: bool = False
    ) -> None:
        library = _library()
        self._gst, self._video = library
        missing = why_not([element.factory for element in elements])
        if missing:
            raise MissingError(missing)
        self._pipeline = self._gst.Pipeline.new(None)
        self._last: Any = None
        self.made: list[Any] = []
        """The elements, as GStreamer has them."""
        for element in elements:
            self._add(element.factory, element.properties)
            if element.caps:
                caps = self._gst.Caps.from_string(element.caps)
                self._add("capsfilter", {"caps": caps}, counts=False)
        end = {"max-buffers": samples, "drop": not keeps, "sync": False}
        self._sink = self._add("appsink", end, counts=False)

    def _add(
        self, factory: str, properties: Mapping[str, object], *, counts: bool = True
    ) -> Any:
        made = self._gst.ElementFactory.make(factory, None)
        for name, value in properties.items():
            made.set_property(name, value)
        self._pipeline.add(made)
        before, self._last = self._last, made
        if before is not None and not before.link(made):
            raise BrokenError(f"{factory} does not fit behind what is before it")
        if counts:
            self.made.append(made)
        return made

    def start(self) -> None:
        """Let it run.

        Raises:
            BrokenError: It does not.
        """
        state = self._pipeline.set_state(self._gst.State.PLAYING)
        if state == self._gst.StateChangeReturn.FAILURE:
            raise BrokenError(self._complaint() or "the pipeline does not start")

    def pull(self, wait_ns: int = PULL_NS) -> Sample | None:
        """The next sample; None if there was none in that time.

        Raises:
            BrokenError: It has failed or ended.
        """
        sample = self._sink.try_pull_sample(wait_ns)
        if sample is not None:
            return self._read(sample)
        complaint = self._complaint()
        if complaint:
            raise BrokenError(complaint)
        if self._sink.is_eos():
            raise BrokenError("the pipeline has ended")
        return None

    def push(self, data: bytes, pts_ns: int) -> None:
        """Give data to the first element, which is an ``appsrc``.

        Raises:
            BrokenError: It does not take any more.
        """
        buffer = self._gst.Buffer.new_wrapped(data)
        buffer.pts = pts_ns
        taken = self.made[0].push_buffer(buffer)
        if taken != self._gst.FlowReturn.OK:
            raise BrokenError(self._complaint() or "the pipeline takes nothing more")

    def close(self) -> None:
        """Stop it and let go of everything."""
        self._pipeline.set_state(self._gst.State.NULL)

    def _read(self, sample: Any) -> Sample:
        buffer, caps = sample.get_buffer(), sample.get_caps()
        data = buffer.extract_dup(0, buffer.get_size())
        nothing = self._gst.CLOCK_TIME_NONE
        pts_ns = None if buffer.pts == nothing else int(buffer.pts)
        info = self._video.VideoInfo.new_from_caps(caps)
        if info is None:
            return Sample(data, "", 0, 0, 0, pts_ns, None)
        # Memory of a decoder may have longer lines than the format needs.
        meta = self._video.buffer_get_video_meta(buffer)
        line = meta.stride[0] if meta is not None else info.stride[0]
        return Sample(
            data,
            info.finfo.name,
            info.width,
            info.height,
            int(line),
            pts_ns,
            self._on_clock(pts_ns),
        )

    def _on_clock(self, pts_ns: int | None) -> int | None:
        clock = self._pipeline.get_clock()
        if pts_ns is None or clock is None or not hasattr(clock.props, "clock_type"):
            return None
        kind = clock.props.clock_type
        if kind.value_nick != "monotonic":
            return None
        return int(self._pipeline.get_base_time()) + pts_ns

    def _complaint(self) -> str:
        """What an element says has gone wrong; empty if none does."""
        bus = self._pipeline.get_bus()
        message = bus.pop_filtered(self._gst.MessageType.ERROR)
        if message is None:
            return ""
        error, _ = message.parse_error()
        return f"{message.src.name}: {error.message}"
