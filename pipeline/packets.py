"""Frames as they came, compressed, for whoever keeps them without looking."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class PacketFormat(NamedTuple):
    """What must be known to decode packets later."""

    codec: str
    """FFmpeg's name of the codec; ``image``: each packet is a file of its own."""
    decoder: Mapping[str, str]
    """What else the decoder needs, as keys of a channel's metadata."""


class Packet(NamedTuple):
    """One compressed frame."""

    tag: Hashable
    """Identifies it among all packets of its source."""
    data: bytes
    """H.264 and H.265 as Annex B, with the parameter sets before each key frame."""
    is_key: bool
    """Whether decoding can begin here."""
    is_shown: bool
    """False: others refer to it, and itself it is cut away."""
    captured_ns: int | None = None
    """Of a camera's: when it was taken, also if nobody will ask for its frame."""


class Taken(NamedTuple):
    """What a frame adds to the packets that were given before."""

    tag: Hashable
    """Of the packet that shows the frame; it may have been given with one before."""
    packets: Sequence[Packet]
    """In decoding order."""


@runtime_checkable
class PacketSource(Protocol):
    """A source that can give its frames without decoding them."""

    @property
    def packet_format(self) -> PacketFormat | None:
        """How the packets are to be decoded; None if there are none after all."""
        ...

    def packets(self, index: int) -> Taken:
        """In place of ``decode``: the packets up to the one that shows this frame.

        Raises:
            DamagedError: There is none for this frame; later ones may have some.
        """
        ...
