"""Time stamps of packets, put right in the order in which they are read. Pure."""

from typing import NamedTuple

from edgepipe.pipeline.source_events import EventKind

_NEAR_S = 60
"""A counter that ran over is believed to have gone on by less than this."""
_FAR_S = 3600
"""A stamp that jumps forward by more, where recordings are often put one behind the
other, begins a time of its own. Anything less is a pause, however long it seems."""
_ZERO = "a time stamp was zero"


class Stamped(NamedTuple):
    """A packet's stamps as they should have been, in ticks."""

    pts: int
    """When it is shown; never before a frame that is settled."""
    dts: int | None
    """When it is decoded: never falls. None if the packet does not say."""
    turns: int = 0
    """How often the counter had run over when this was stamped."""
    kind: EventKind | None = None
    """What was wrong with the stamps, or what befell them."""
    detail: str = ""
    amount: int = 0
    """How many ticks the stamps went back, or jumped."""


class Stamps:
    """Believes the stamps of one reading as far as they can be believed.

    A counter that runs over goes on. A stamp that goes back is not believed, and takes
    the place of the one before it; when the next one agrees with it, or it comes with a
    key frame and from far, the recording goes on from there in a time of its own, which
    follows without a gap. A zero among later stamps is no stamp.

    Args:
        bits: Width of the counter; None where it cannot run over.
        second: Ticks in a second.
        frame: Ticks between two frames as far as is known beforehand.
    """

    def __init__(self, bits: int | None, second: int, frame: int) -> None:
        self._modulus = 0 if bits is None else 1 << bits
        self._second = max(1, second)
        self._frame = max(1, frame)
        self._believed: tuple[int, int] | None = None
        """The last decoding stamp that was believed: as it was, and put right."""
        self._doubted: int | None = None
        """The last one that was not."""
        self._turns = 0
        self._ahead = 0
        """By how much the last frame was shown after it was decoded."""
        self._dts = self._latest = 0
        """The last decoding and the latest presentation stamp that were given out."""

    def take(self, pts: int | None, dts: int | None, *, is_key: bool) -> Stamped:
        """The stamps of the next packet in decoding order."""
        pts = dts if pts is None else pts
        if pts is None:
            stamped = self._missing("a frame had no time stamp")
        elif dts is None:
            stamped = self._undated(pts)
        elif self._believed is None:
            self._dts = min(pts, dts)
            stamped = self._believe(pts, dts, dts)
        else:
            stamped = self._follow(pts, dts, is_key, self._believed)
        if stamped.dts is not None:
            self._dts = stamped.dts
        self._latest = max(self._latest, stamped.pts)
        return stamped

    def _undated(self, pts: int) -> Stamped:
        """Some containers do not say when the first frames are decoded, or ever."""
        if self._believed is None:
            return Stamped(pts, None)
        raw, right = self._believed
        return Stamped(max(pts + right - raw, self._dts), None, self._turns)

    def _follow(
        self, pts: int, dts: int, is_key: bool, believed: tuple[int, int]
    ) -> Stamped:
        raw, right = believed
        step, turns = self._step(dts - raw)
        if step >= 0 and not (self._modulus and step > _FAR_S * self._second):
            self._doubted = None
            self._turns += turns
            if right == self._dts and 0 < step <= self._second:  # the very next frame
                self._frame = step
            return self._believe(pts, dts, max(right + step, self._dts))
        if dts < raw <= pts <= raw + self._second:
            # FFmpeg made it up, from a stamp that was wrong.
            return Stamped(max(pts + right - raw, self._dts), self._dts, self._turns)
        doubted, self._doubted = self._doubted, dts
        if not dts and not pts and doubted is None:
            return self._missing(_ZERO)
        agrees = doubted is not None and 0 < dts - doubted <= self._second
        if step > 0 or agrees or (is_key and step < -self._second and dts):
            return self._begin_anew(pts, dts, step)
        if not dts and not pts:
            return self._missing(_ZERO)
        words, kind = self._back(-step), EventKind.REGRESSION
        # A key frame may begin something new: it follows all that was before.
        shown = self._latest + 1 if is_key else self._dts + self._ahead
        shown = max(shown, self._dts)
        return Stamped(shown, self._dts, self._turns, kind, words, -step)

    def _back(self, ticks: int) -> str:
        return f"a time stamp went back by {ticks / self._second:.3f} s"

    def _step(self, step: int) -> tuple[int, int]:
        """The step as it was meant, and how often the counter ran over in it."""
        if self._modulus:
            half = self._modulus >> 1
            short = (step + half) % self._modulus - half
            if short != step and abs(short) < _NEAR_S * self._second:
                return short, (short - step) // self._modulus
        return step, 0

    def _believe(self, pts: int, dts: int, right: int) -> Stamped:
        self._believed = (dts, right)
        ahead, _ = self._step(pts - dts)
        if ahead < -self._second:
            # FFmpeg made the decoding stamp up, and that is the better one.
            shown = max(right + self._ahead, self._dts)
            kind = EventKind.REGRESSION if pts else EventKind.DUPLICATE
            words = self._back(-ahead) if pts else _ZERO
            return Stamped(shown, right, self._turns, kind, words, -ahead)
        self._ahead = ahead
        turns = self._turns
        if self._modulus:
            turns += (dts + ahead) // self._modulus
        # Never before what may have been shown already.
        return Stamped(max(right + ahead, self._dts), right, turns)

    def _missing(self, detail: str) -> Stamped:
        """Counts on from the stamp before."""
        dts = self._dts + self._frame
        return Stamped(dts, dts, self._turns, EventKind.DUPLICATE, detail)

    def _begin_anew(self, pts: int, dts: int, step: int) -> Stamped:
        """What follows has a time of its own: it is shown after all that was before."""
        self._doubted = None
        ahead = max(0, self._step(pts - dts)[0])
        right = max(self._latest + self._frame - ahead, self._dts)
        seconds = step / self._second
        words = f"time stamps jump by {seconds:+.3f} s and go on from there"
        stamped = self._believe(pts, dts, right)
        return stamped._replace(
            kind=EventKind.DISCONTINUITY, detail=words, amount=abs(step)
        )
