"""Shots of a camera that wait to be decoded. Pure.

It is bounded, and it never gives what the decoder could only guess: shots are left out
from where the next ones do not need them, or up to the next key frame.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources.camera import Shot, ShotDecoder
from edgepipe.stages.sources.order import PresentationOrder
from edgepipe.stages.sources.pressure import Path

MOST_SHOTS = 300
"""Ten seconds at 30 fps: cameras send a key frame more often than that."""
MOST_BYTES = 32 << 20
_GIVEN_UP = "given up: it was not decoded in time"


class Waiting(NamedTuple):
    """A shot on its way to its decoder."""

    tag: int
    """Counts all shots of a source, over all connections."""
    shot: Shot
    decoder: ShotDecoder


class Announced(NamedTuple):
    """A frame that can be asked for."""

    number: int
    captured_ns: int


class Taken(NamedTuple):
    """What to feed so that a frame comes out."""

    tag: int
    """Of the frame that was asked for."""
    stamp: int
    shots: Sequence[Waiting]
    """In decoding order."""
    is_reordered: bool
    """The decoder may need the shots after it as well."""
    jumped: bool
    """The decoder must forget what it has: shots before the first one are left out."""


class Backlog:
    """Keeps shots in decoding order; the caller serialises the calls."""

    def __init__(
        self, most_shots: int = MOST_SHOTS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._most_shots, self._most_bytes = most_shots, most_bytes
        self._shots: deque[Waiting] = deque()
        self._bytes = 0
        self._tags: dict[int, Waiting] = {}
        """Index to the shot that it means, of those that may still be asked for."""
        self._order = PresentationOrder[Waiting]()
        self._decoder: ShotDecoder | None = None
        self._next_tag = 0
        self._next_index = 0
        self._last_ns = -1
        """Capture of the newest frame that can be asked for."""
        self._last_stamp: int | None = None
        self._needs_key = True
        self._has_overrun = False
        """Whether a key frame is needed because too many shots came."""
        self._has_jumped = False
        self.left_out = 0
        """Shots that were not kept because too many came before them that nobody had
        decoded, since somebody set this to 0."""

    def push(self, shot: Shot, decoder: ShotDecoder) -> Sequence[Announced]:
        """Add a shot; return the frames that can be asked for from now on.

        A key frame is needed first, and again after shots had to be left out.
        """
        if decoder is not self._decoder:
            self._begin(decoder)
        if self._needs_key and not shot.is_key:
            self.left_out += self._has_overrun
            return ()
        self._needs_key = self._has_overrun = False
        while self._shots and (
            len(self._shots) >= self._most_shots
            or self._bytes + shot.size_bytes > self._most_bytes
        ):
            self._leave_out_oldest()
            if not self._shots and not shot.is_key:
                self._needs_key = self._has_overrun = True
                self.left_out += 1
                self._drop_unsettled()
                return ()
        waiting = Waiting(self._next_tag, shot, decoder)
        self._next_tag += 1
        self._shots.append(waiting)
        self._bytes += shot.size_bytes
        return self._announce(waiting)

    def take(self, index: int) -> Taken:
        """Take out what must be decoded for this frame; what is older is left out.

        Raises:
            DamagedError: It is not there any more.
        """
        for older in [i for i in self._tags if i < index]:
            del self._tags[older]
        wanted = self._tags.pop(index, None)
        if wanted is None:
            raise DamagedError(_GIVEN_UP)
        reordered = wanted.shot.decoding_stamp not in (None, wanted.shot.stamp)
        if not self._shots or wanted.tag < self._shots[0].tag:
            # It went in with one before.
            return Taken(wanted.tag, wanted.shot.stamp, (), reordered, False)
        first = self._key_for(wanted)
        jumped = first > 0 or self._has_jumped
        self._has_jumped = False
        for _ in range(first):
            self._pop()
        shots: list[Waiting] = []
        while self._shots and self._shots[0].tag <= wanted.tag:
            shots.append(self._pop())
        return Taken(wanted.tag, wanted.shot.stamp, shots, reordered, jumped)

    def put_back(self, shots: Sequence[Waiting]) -> None:
        """Shots that were taken out were not needed after all."""
        self._shots.extendleft(reversed(shots))
        self._bytes += sum(each.shot.size_bytes for each in shots)

    def path_to(self, index: int) -> Path:
        """What would have to be decoded for this frame; nothing is taken out."""
        wanted = self._tags.get(index)
        keys = others = 0
        begins_anew = False
        if wanted is None:
            return Path(begins_anew, keys, others, False)
        first = self._key_for(wanted)
        for position, waiting in enumerate(self._shots):
            if waiting.tag > wanted.tag:
                break
            shot = waiting.shot
            begins_anew |= position >= first and shot.is_key
            of_use = not shot.is_disposable or shot.stamp >= wanted.shot.stamp
            if position >= first and of_use and waiting.tag != wanted.tag:
                keys += shot.is_key
                others += not shot.is_key
        return Path(begins_anew, keys, others, wanted.shot.is_disposable)

    def take_next(self) -> Waiting | None:
        """One shot more, for a decoder that holds back what was asked for."""
        if not self._shots or self._shots[0].decoder is not self._decoder:
            return None
        return self._pop()

    # --- in detail --------------------------------------------------------------------

    def _begin(self, decoder: ShotDecoder) -> None:
        """Another connection: nothing that comes refers to what was before."""
        self._decoder = decoder
        self._drop_unsettled()
        self._needs_key, self._has_overrun = True, False

    def _announce(self, waiting: Waiting) -> Sequence[Announced]:
        stamp = waiting.shot.stamp
        if self._last_stamp is not None and stamp <= self._last_stamp:
            if not waiting.shot.is_key:
                return ()  # it would come after frames that are shown later
            self._drop_unsettled()  # the camera's clock was set back
        decoding_stamp = waiting.shot.decoding_stamp
        self._order.push(
            stamp, stamp if decoding_stamp is None else decoding_stamp, waiting
        )
        found: list[Announced] = []
        for settled, shown in self._order.settled():
            self._last_stamp = settled
            self._tags[self._next_index] = shown
            # Rates and trackers divide by the difference of two stamps.
            self._last_ns = max(shown.shot.captured_ns, self._last_ns + 1)
            found.append(Announced(self._next_index, self._last_ns))
            self._next_index += 1
        for old in list(self._tags)[: -2 * self._most_shots]:
            del self._tags[old]
        return found

    def _drop_unsettled(self) -> None:
        self._order = PresentationOrder()
        self._last_stamp = None

    def _leave_out_oldest(self) -> None:
        """Up to the next key frame, or all."""
        self._has_jumped = True
        self._forget(self._pop())
        while self._shots and not self._shots[0].shot.is_key:
            self._forget(self._pop())

    def _forget(self, waiting: Waiting) -> None:
        self.left_out += 1
        for index, known in list(self._tags.items()):
            if known.tag == waiting.tag:
                del self._tags[index]

    def _pop(self) -> Waiting:
        waiting = self._shots.popleft()
        self._bytes -= waiting.shot.size_bytes
        return waiting

    def _key_for(self, wanted: Waiting) -> int:
        """Position of the last shot from which the wanted one can be decoded."""
        found = 0
        for position, waiting in enumerate(self._shots):
            if waiting.tag > wanted.tag:
                break
            same = waiting.decoder is wanted.decoder
            if same and waiting.shot.is_key and waiting.shot.stamp <= wanted.shot.stamp:
                found = position
        return found
