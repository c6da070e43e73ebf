"""Decides which log messages are worth a line, so that months of them fill no disk.

The first message of a kind is shown at once. What is like it is counted, and told with
the time that it took: after 10 s, a minute, ten minutes, then each hour, and at the
end. Messages that differ in numbers only are of one kind. How many lines there are at
all is bounded too: 120 at once, and one more a minute.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

SECOND_NS = 1_000_000_000
INTERVALS_NS = tuple(seconds * SECOND_NS for seconds in (10, 60, 600, 3600))
"""For how long what repeats is counted before it is told; the last one repeats."""
MOST_KINDS = 500
"""Kinds that are remembered; the one that was not seen for longest is forgotten."""
BURST_LINES = 120
LINE_NS = 60 * SECOND_NS
"""One more line may be written each so often, up to the burst."""
RESERVED_LINES = 60
"""Of the burst, for errors: what floods is mostly warnings."""
MOST_TOLD = 10
"""Kinds that are told at the end, those with the most messages."""

_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b(?=[a-fA-F-]*\d)[0-9a-fA-F-]{8,}\b"  # hashes, dates
    r"|(?<![A-Za-z_])([A-Za-z_]*)(\d[\d.,:]*)"
)
_ID_DIGITS = 2


def pattern(text: str) -> str:
    """What a message is without its numbers.

    One or two digits that belong to a word stay: ``cam1`` and ``cam2`` are two things.
    """
    return _NUMBER.sub(_without, text)


def _without(found: re.Match[str]) -> str:
    word, digits = found[1], found[2]
    if word and len(digits) <= _ID_DIGITS:
        return found[0]
    return f"{word or ''}#"


class Message(NamedTuple):
    """One message, as far as folding is concerned."""

    key: Hashable
    """Equal for messages of one kind."""
    text: str
    level: int = logging.WARNING
    logger: str = "edgepipe"
    lines: int = 1
    """What it takes to show all of it, with its traceback."""


class Told(NamedTuple):
    """A message to be shown, and how many it stands for."""

    message: Message
    """The latest of them."""
    times: int
    """1: only itself."""
    span_ns: int = 0
    """From the first of them to the latest."""
    is_whole: bool = True
    """Whether there is room for all of its lines."""


class LineBudget:
    """So many lines at once, and one more each so often."""

    def __init__(self, burst: int = BURST_LINES, line_ns: int = LINE_NS) -> None:
        self._line_ns = line_ns
        self._most_ns = self._saved_ns = burst * line_ns
        self._at_ns: int | None = None

    def take(self, lines: int, reserved: int, now_ns: int) -> bool:
        """Whether so many lines may be written now and the reserved ones be left."""
        if self._at_ns is not None and now_ns > self._at_ns:
            saved_ns = self._saved_ns + now_ns - self._at_ns
            self._saved_ns = min(self._most_ns, saved_ns)
        self._at_ns = now_ns
        if self._saved_ns < (lines + reserved) * self._line_ns:
            return False
        self._saved_ns -= lines * self._line_ns
        return True


@dataclass(slots=True)
class _Kind:
    """What is known of one kind of message."""

    message: Message
    last_ns: int
    due_ns: int
    untold: int = 0
    since_ns: int = 0
    """When the first of the untold came."""
    step: int = 0
    """Which interval comes next."""

    def add(self, message: Message, times: int, now_ns: int) -> None:
        if now_ns - self.last_ns > INTERVALS_NS[-1]:
            self.step = 0  # quiet for long: an old trouble is back
        if not self.untold:
            self.since_ns = now_ns
        self.message, self.last_ns = message, now_ns
        self.untold += times

    def tell(self, now_ns: int, is_whole: bool = True) -> Told:
        told = Told(self.message, self.untold, self.last_ns - self.since_ns, is_whole)
        self.untold = 0
        self.due_ns = now_ns + INTERVALS_NS[self.step]
        self.step = min(self.step + 1, len(INTERVALS_NS) - 1)
        return told


class Folder:
    """Decides. No clock, no output; for one thread at a time."""

    def __init__(
        self, budget: LineBudget | None = None, most_kinds: int = MOST_KINDS
    ) -> None:
        self._budget = budget or LineBudget()
        self._last_words = LineBudget()
        """For what ends the program: no flood of anything else may silence it."""
        self._most_kinds = most_kinds
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        left_out = Message(None, "messages of other kinds")
        self._others = _Kind(left_out, 0, 0)
        """What was never told of kinds that are forgotten."""
        self._look_ns = 0
        self._is_last = False
        """Whether the end was reached: nothing can be told later any more."""
        self.seen = 0
        """Messages that came, shown or not."""

    def is_due(self, key: Hashable, now_ns: int) -> bool:
        """Whether the next message of this kind is to be shown if there is room."""
        kind = self._kinds.get(key)
        return kind is None or now_ns >= kind.due_ns or self._is_last

    def see(self, message: Message, now_ns: int) -> Told | None:
        """What becomes of a message; None: it is counted, and told later."""
        self.seen += 1
        is_due = self.is_due(message.key, now_ns)
        kind = self._kinds.get(message.key)
        if kind is None:
            kind = self._new(message, now_ns)
        self._kinds.move_to_end(message.key)
        kind.add(message, 1, now_ns)
        return self._tell(kind, now_ns) if is_due else None

    def _new(self, message: Message, now_ns: int) -> _Kind:
        if len(self._kinds) >= self._most_kinds:
            _, gone = self._kinds.popitem(last=False)
            if gone.untold:
                self._others.add(self._others.message, gone.untold, now_ns)
        kind = self._kinds[message.key] = _Kind(message, now_ns, now_ns)
        return kind

    def _tell(self, kind: _Kind, now_ns: int) -> Told | None:
        """Tell it if there is room; with its traceback only if it is the only one."""
        message = kind.message
        reserved = 0 if message.level >= logging.ERROR else RESERVED_LINES
        is_last = message.level >= logging.CRITICAL
        budget = self._last_words if is_last else self._budget
        if kind.untold == 1 and budget.take(message.lines, reserved, now_ns):
            return kind.tell(now_ns)
        if budget.take(1, reserved, now_ns):
            return kind.tell(now_ns, is_whole=False)
        return None

    def overdue(self, now_ns: int) -> Iterator[Told]:
        """What was counted and whose time is up, though nothing like it has come."""
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + INTERVALS_NS[0]
        for kind in (*self._kinds.values(), self._others):
            if kind.untold and now_ns >= kind.due_ns:
                told = self._tell(kind, now_ns)
                if told is not None:
                    yield told

    def rest(self, now_ns: int) -> Iterator[Told]:
        """At the end: what was not told, the most frequent first, the rest summed up.

        These few lines are written in any case. What comes afterwards is shown as long
        as there is room.
        """
        self._is_last = True
        untold = sorted(
            (kind for kind in self._kinds.values() if kind.untold),
            key=lambda kind: -kind.untold,
        )
        for kind in untold[:MOST_TOLD]:
            yield kind.tell(now_ns, is_whole=False)
        for kind in untold[MOST_TOLD:]:
            self._others.add(self._others.message, kind.untold, now_ns)
            kind.untold = 0
        if self._others.untold:
            yield self._others.tell(now_ns, is_whole=False)
