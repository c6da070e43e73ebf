"""The life of one camera as a state machine. Pure: it is given the time and the dice.

::

    CONNECTING -> LIVE <-> STALLED      a connection is open, or being opened
         |          |         |
         +----------+---------+--> BACKING_OFF -> CONNECTING
                                        |
                                       GONE      no more tries are allowed

``ENDED`` follows from anywhere when the camera is closed.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random

from edgepipe.pipeline.source import SourceStatus
from edgepipe.pipeline.source_events import EventKind, SourceEvent

SECOND_NS = 1_000_000_000
LATE_NS = SECOND_NS
"""An attempt to connect that has not come back so long after its time-out is told of:
a name that is looked up, or a driver, cannot be interrupted."""
_LOOKS = 8
"""How many pictures are compared in the time after which a camera counts as frozen."""

Events = tuple[SourceEvent, ...]


class State(Enum):
    """Where a camera is in its life."""

    CONNECTING = "connecting"
    LIVE = "live"
    STALLED = "stalled"
    BACKING_OFF = "backing off"
    GONE = "gone"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a camera is waited for, and how often."""

    connect_ns: int = 5 * SECOND_NS
    """Longest time for opening a connection."""
    grace_ns: int = 10 * SECOND_NS
    """Longest time from an open connection to the first sign of a picture."""
    stall_after_ns: int | None = None
    """A camera that sends nothing for so long has stalled; None: three frames, and at
    least a second."""
    reconnect_after_ns: int = 5 * SECOND_NS
    """When it has sent nothing for so long, the connection is given up."""
    frozen_after_ns: int = 10 * SECOND_NS
    """A picture that has not changed for so long is frozen; 0: nobody looks."""
    retry_min_ns: int = SECOND_NS
    """Longest wait before the first new try; it doubles with every one after that."""
    retry_max_ns: int = 10 * SECOND_NS
    """Longest wait before any try."""
    retries: int | None = None
    """New tries in a row without a picture before the camera is given up; None: no
    end."""


class Life:
    """One camera's state. The caller serialises the calls; time never goes back.

    Every method returns what is to be told, oldest first.

    Args:
        patience: How long it is waited for.
        dice: Spreads the tries of cameras that were lost at the same moment.
    """

    def __init__(self, patience: Patience, dice: Random) -> None:
        self._patience = patience
        self._dice = dice
        self.state = State.CONNECTING
        self._since_ns = 0
        self._opened_ns: int | None = None
        self._heard_ns: int | None = None
        """When something came over this connection."""
        self._pictured_ns: int | None = None
        """When the newest usable frame came, over any connection."""
        self._silent_ns: int | None = None
        """Since when there are no frames, before the first one or in an outage."""
        self._period_ns = 0
        self._failures = 0
        """In a row, without one connection that held in between."""
        self._fruitless = 0
        """New tries since the last picture."""
        self._connections = 0
        self._retry_ns = 0
        self._digest: int | None = None
        self._same_since_ns = 0
        self._look_ns = 0
        self._frozen = False

    # --- what happens -----------------------------------------------------------------

    def start(self, now_ns: int) -> Events:
        """The first attempt, or the next one, begins."""
        if self._silent_ns is None:
            self._silent_ns = now_ns
        self._enter(State.CONNECTING, now_ns)
        self._opened_ns = self._heard_ns = None
        again = f"try {self._fruitless + 1}" if self._fruitless else ""
        return (SourceEvent(EventKind.CONNECTING, again),)

    def opened(self, now_ns: int, period_ns: int = 0) -> Events:
        """The connection is open, but there is no picture yet.

        Args:
            now_ns: The time.
            period_ns: Between two frames, as the camera says; 0 if it does not.
        """
        self._opened_ns, self._period_ns = now_ns, period_ns
        if self.state is not State.CONNECTING:  # it took long, and yet it came
            self._enter(State.CONNECTING, now_ns)
        return ()

    def heard(self, now_ns: int) -> None:
        """Something came that is no picture yet: the camera is alive."""
        self._heard_ns = now_ns

    def frame(self, now_ns: int) -> Events:
        """A frame came that can be decoded."""
        self._heard_ns = self._pictured_ns = now_ns
        if self.state is State.LIVE:
            return ()
        was_stalled, first = self.state is State.STALLED, self._connections == 0
        self._connections += not was_stalled
        outage_ns = now_ns - (self._silent_ns or 0)
        self._fruitless = 0
        self._enter(State.LIVE, now_ns)
        after = f"after {_seconds(outage_ns)}"
        if first:
            detail = f"the first picture {after}"
            return (SourceEvent(EventKind.LIVE, detail, amount_ns=outage_ns),)
        live = SourceEvent(EventKind.LIVE, f"pictures again {after}", None, outage_ns)
        if was_stalled:
            return (live, SourceEvent(EventKind.GAP, "it had stalled", None, outage_ns))
        detail = f"connected anew {after}"
        return (live, SourceEvent(EventKind.DISCONTINUITY, detail, None, outage_ns))

    def wants_look(self, now_ns: int) -> bool:
        """Whether the picture of this moment should be compared with the last one."""
        return self._patience.frozen_after_ns > 0 and now_ns >= self._look_ns

    def looked(self, now_ns: int, digest: int) -> Events:
        """What the picture looked like, as a number."""
        after_ns = self._patience.frozen_after_ns
        self._look_ns = now_ns + after_ns // _LOOKS
        if digest != self._digest:
            same_ns = now_ns - self._same_since_ns
            was_frozen, self._frozen = self._frozen, False
            self._digest, self._same_since_ns = digest, now_ns
            if not was_frozen:
                return ()
            detail = f"the picture changes again after {_seconds(same_ns)}"
            return (SourceEvent(EventKind.LIVE, detail, amount_ns=same_ns),)
        same_ns = now_ns - self._same_since_ns
        if self._frozen or same_ns < after_ns:
            return ()
        self._frozen = True
        detail = f"the same picture for {_seconds(same_ns)}"
        return (SourceEvent(EventKind.FROZEN, detail, amount_ns=same_ns),)

    def failed(self, now_ns: int, why: str) -> Events:
        """The attempt or the connection is over, for a reason in words."""
        if self.state in (State.BACKING_OFF, State.GONE, State.ENDED):
            return ()  # told already: this comes from an attempt that was late
        held_ns = 0 if self._opened_ns is None else now_ns - self._opened_ns
        if held_ns >= self._patience.reconnect_after_ns:
            self._failures = 0
        if self.state in (State.LIVE, State.STALLED):
            self._begin_silence(now_ns)
        self._opened_ns = self._heard_ns = None
        # A picture from before must not be taken for one that has come now.
        self._digest, self._same_since_ns, self._frozen = None, now_ns, False
        most = self._patience.retries
        if most is not None and self._fruitless >= most:
            self._enter(State.GONE, now_ns)
            return (SourceEvent(EventKind.GONE, why),)
        self._failures += 1
        self._fruitless += 1
        wait_ns = self._wait_ns()
        self._retry_ns = now_ns + wait_ns
        self._enter(State.BACKING_OFF, now_ns)
        detail = f"{why}; trying again in {_seconds(wait_ns)}"
        return (SourceEvent(EventKind.BACKING_OFF, detail, amount_ns=wait_ns),)

    def appeared(self, now_ns: int) -> None:
        """A device that was not there is there again: no reason to wait."""
        if self.state is State.BACKING_OFF:
            self._retry_ns = now_ns
            self._failures = 0

    def tick(self, now_ns: int) -> Events:
        """Time has passed, and maybe too much of it."""
        if self.state is State.LIVE and now_ns >= self._stalls_ns():
            silent_ns = self._begin_silence(now_ns)
            self._enter(State.STALLED, now_ns)
            detail = f"no picture for {_seconds(silent_ns)}"
            return (SourceEvent(EventKind.STALLED, detail, amount_ns=silent_ns),)
        if (
            self.state is State.CONNECTING
            and self._opened_ns is None
            and now_ns >= self._since_ns + self._patience.connect_ns + LATE_NS
        ):
            return self.failed(now_ns, "no answer")
        return ()

    def end(self, now_ns: int) -> None:
        """The camera is closed for good."""
        self._enter(State.ENDED, now_ns)

    # --- what is to be done -----------------------------------------------------------

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time for another attempt."""
        return self.state is State.BACKING_OFF and now_ns >= self._retry_ns

    def why_given_up(self, now_ns: int) -> str:
        """Why the open connection is to be given up; empty: it is not."""
        if self._opened_ns is None or now_ns < self._lost_ns():
            return ""
        if self._heard_ns is None:
            return f"connected, but no picture for {_seconds(now_ns - self._opened_ns)}"
        return f"nothing came for {_seconds(now_ns - self._heard_ns)}"

    @property
    def wake_ns(self) -> int | None:
        """When :meth:`tick` and the questions above may next have something to say."""
        if self.state is State.BACKING_OFF:
            return self._retry_ns
        if self.state is State.CONNECTING and self._opened_ns is None:
            return self._since_ns + self._patience.connect_ns + LATE_NS
        if self.state is State.LIVE:
            return min(self._stalls_ns(), self._lost_ns())
        return None if self._opened_ns is None else self._lost_ns()

    def status(self) -> SourceStatus:
        """For whoever watches."""
        return SourceStatus(
            self.state.value,
            self._since_ns,
            self._pictured_ns,
            max(0, self._connections - 1),
            self._frozen,
        )

    # --- in detail --------------------------------------------------------------------

    def _enter(self, state: State, now_ns: int) -> None:
        self.state, self._since_ns = state, now_ns

    def _begin_silence(self, now_ns: int) -> int:
        """There are no frames since the newest one; return for how long."""
        self._silent_ns = now_ns if self._pictured_ns is None else self._pictured_ns
        return now_ns - self._silent_ns

    def _stalls_ns(self) -> int:
        after_ns = self._patience.stall_after_ns
        if after_ns is None:
            after_ns = max(3 * self._period_ns, SECOND_NS)
        return (self._pictured_ns or 0) + after_ns

    def _lost_ns(self) -> int:
        if self._heard_ns is not None:
            return self._heard_ns + self._patience.reconnect_after_ns
        return (self._opened_ns or 0) + self._patience.grace_ns

    def _wait_ns(self) -> int:
        patience = self._patience
        # Doubling further than this only makes a number that nobody needs.
        doublings = min(self._failures - 1, 30)
        longest_ns = min(patience.retry_min_ns << doublings, patience.retry_max_ns)
        return self._dice.randint(longest_ns // 2, longest_ns)


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
