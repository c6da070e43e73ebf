"""A decoder inside GStreamer for a camera's packets: the hardware of a Jetson."""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources import gstreamer
from edgepipe.stages.sources.camera import Decoded
from edgepipe.stages.sources.gstreamer import BrokenError, Chain, Element, Sample
from edgepipe.stages.sources.raw_formats import OF_GSTREAMER, RawFormat, raw_picture

WAIT_NS = 200_000_000
"""Longest time for one picture; the hardware takes a few milliseconds."""
_PARSERS = {
    "h264": ("h264parse", "video/x-h264"),
    "hevc": ("h265parse", "video/x-h265"),
}
"""By FFmpeg's name of the codec."""
JETSON = (
    # Without the first it holds pictures back that nothing is reordered with.
    Element("nvv4l2decoder", {"disable-dpb": True, "enable-max-performance": True}),
    Element("nvvidconv", {}, "video/x-raw,format=NV12"),
)
"""NVIDIA's decoder of a Jetson, and the copy out of its memory."""


def elements(codec: str, decoder: Sequence[Element] = JETSON) -> Sequence[Element]:
    """The whole chain for a codec; empty if it is none of those."""
    parser = _PARSERS.get(codec)
    if parser is None:
        return ()
    caps = f"{parser[1]},stream-format=byte-stream,alignment=au"
    source: Mapping[str, object] = {"is-live": True, "format": 3, "block": False}
    return (Element("appsrc", source, caps), Element(parser[0]), *decoder)


def why_not() -> str:
    """Why a Jetson's decoder cannot be used here; empty if it can."""
    parsers = [parser for parser, _ in _PARSERS.values()]
    return gstreamer.why_not([*parsers, *(each.factory for each in JETSON)])


def jetson(codec: str, header: bytes) -> "tuple[GstDecoder | None, str]":
    """A Jetson's decoder for a codec, or None, and which decoder it is and why.

    Args:
        codec: FFmpeg's name of it.
        header: Parameter sets that came beside the stream.
    """
    why = why_not() or ("" if codec in _PARSERS else f"it does not decode {codec}")
    if why:
        return None, f"software ({why})"
    return GstDecoder(Chain(elements(codec), samples=8, keeps=True), header), "nvdec"


class GstDecoder:
    """Takes packets with start codes, one access unit each.

    It does not tell whether a picture is damaged: what is missing must be found before.

    Args:
        chain: Made of :func:`elements`; it is closed with the decoder.
        header: Parameter sets that came beside the stream.

    Raises:
        BrokenError: It does not start.
    """

    def __init__(self, chain: Chain, header: bytes = b"") -> None:
        self._chain, self._header = chain, header
        # Pictures may be wanted after the camera is closed: it ends with its last user.
        weakref.finalize(self, chain.close)
        chain.start()

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        """Decode one packet; wait until its picture is there.

        Raises:
            DamagedError: Nothing came.
        """
        try:
            # The tag stands in for the time: nothing here looks at clocks.
            data, self._header = self._header + _bytes(payload), b""
            self._chain.push(data, tag)
            found: list[Decoded] = []
            while not found or found[-1].tag != tag:
                sample = self._chain.pull(WAIT_NS)
                if sample is None:
                    break
                found.append(_decoded(sample, tag))
        except BrokenError as error:
            raise DamagedError(str(error)) from error
        if not found:
            raise DamagedError("the decoder gave no picture in time")
        return found

    def forget(self) -> None:
        """A key frame follows, and the decoder begins anew with it by itself."""


def _bytes(payload: Any) -> bytes:
    return bytes(payload)


def _decoded(sample: Sample, tag: int) -> Decoded:
    fourcc = OF_GSTREAMER.get(sample.format)
    if fourcc is None:
        raise DamagedError(f"pictures in the format {sample.format} cannot be read")
    layout = RawFormat(fourcc, sample.width, sample.height, sample.bytes_per_line)
    of = tag if sample.pts_ns is None else sample.pts_ns
    return Decoded(of, raw_picture(sample.data, layout))
