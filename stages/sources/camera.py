"""What the life of a live source needs of each kind of camera."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.packets import PacketFormat


class CameraError(Exception):
    """An attempt to connect, or a connection, is over; the message says why.

    Attributes:
        is_absent: The device is not there: its return is worth waiting for.
    """

    def __init__(self, why: str, *, is_absent: bool = False) -> None:
        super().__init__(why)
        self.is_absent = is_absent


class Shot(NamedTuple):
    """What a camera sent for one picture, not yet decoded."""

    payload: object
    """For the connection's decoder."""
    captured_ns: int
    """When the picture was taken, or, without a stamp, when it came; monotonic."""
    size_bytes: int = 0
    is_key: bool = True
    """Whether decoding can begin with it."""
    stamp: int = 0
    """Its place in the order of presentation, within its connection."""
    decoding_stamp: int | None = None
    """No later shot is presented before this; None: it is ``stamp`` itself."""
    lost: int = 0
    """Pictures that are known to be missing before it."""
    damage: str = ""
    """Why its picture is not fit to look at; empty as far as is known."""
    is_disposable: bool = False
    """Whether no other shot refers to it."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A picture that came out of a decoder."""

    tag: int
    """Of the shot that it was made of."""
    picture: Picture
    is_damaged: bool = False


class ShotDecoder(Protocol):
    """Makes pictures of the shots of one connection; used by one thread at a time."""

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        """Take one shot in decoding order; give what comes out, maybe of older ones.

        Raises:
            DamagedError: It cannot be decoded; later ones may.
        """
        ...

    def forget(self) -> None:
        """What comes next does not follow what was last."""
        ...


@runtime_checkable
class PackingDecoder(Protocol):
    """A decoder whose payloads can be kept as they are."""

    @property
    def packet_format(self) -> PacketFormat:
        """What the payloads are."""
        ...

    def packed(self, payload: object, *, is_key: bool) -> bytes:
        """The bytes of a payload, fit to be decoded without the connection."""
        ...


@dataclass(frozen=True, slots=True)
class CameraFacts:
    """What an open connection says of its pictures."""

    width: int
    height: int
    fps: float | None
    codec: str
    notes: tuple[str, ...] = ()
    """What had to be assumed, one line each."""
    held_ns: int = 0
    """How long each frame is kept back; see ``SourceInfo``."""


class Connection(Protocol):
    """An open camera. One thread reads; another one may decode, also after closing."""

    @property
    def facts(self) -> CameraFacts:
        """Size, rate and codec."""
        ...

    @property
    def decoder(self) -> ShotDecoder:
        """For the shots of this connection."""
        ...

    def read(self) -> Shot | None:
        """Wait for the next shot, for a time that is bounded.

        None: something came that is no picture, or the wait was long enough for the
        caller to look at the clock.

        Raises:
            CameraError: The connection is lost.
        """
        ...

    def interrupt(self) -> None:
        """Make :meth:`read` come back soon; called by another thread."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class Camera(Protocol):
    """A place where a camera may be."""

    def connect(self) -> Connection:
        """Open it, within the time that it was made with.

        Raises:
            CameraError: It cannot be opened now.
        """
        ...

    def is_there(self) -> bool | None:
        """Whether the device exists at this moment; None: only trying can tell."""
        ...

    def interrupt(self) -> None:
        """Make :meth:`connect` come back soon, if that is possible."""
        ...
