"""A log handler that folds what repeats before another handler writes it."""

import logging
import traceback
from collections.abc import Callable, Hashable
from copy import copy

from edgepipe.telemetry.folding import Folder, Message, Told, pattern

_MOST_TEXT = 2000
"""Characters of a message; what goes beyond is cut off and counted."""
_MOST_KEY = 500
_MOST_TRACEBACK_LINES = 60


class FoldingHandler(logging.Handler):
    """Hands on what is worth a line; what is folded is told later, or by ``close``.

    Any handler may be behind it: of standard error, where the journal of a robot
    listens for months, or of a file.

    Args:
        target: Writes; is closed by ``close``.
        now_ns: A monotonic clock.
        folder: Decides.
    """

    def __init__(
        self,
        target: logging.Handler,
        now_ns: Callable[[], int],
        folder: Folder | None = None,
    ) -> None:
        super().__init__()
        self._target = target
        self._now_ns = now_ns
        self._folder = folder or Folder()

    @property
    def seen(self) -> int:
        """Messages that came, shown or not."""
        return self._folder.seen

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802
        """Formatting is what the target does."""
        super().setFormatter(fmt)
        self._target.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on the record or count it, and tell what is overdue."""
        now_ns = self._now_ns()
        text = _text(record)
        key = _key(record, text)
        # Reading the source for a traceback costs more than all the rest.
        trace = _traceback(record) if self._folder.is_due(key, now_ns) else ""
        lines = 1 + text.count("\n") + trace.count("\n") + bool(trace)
        message = Message(key, text, record.levelno, record.name, lines)
        told = self._folder.see(message, now_ns)
        if told is not None:
            self._target.handle(_shown(record, told, trace))
        for other in self._folder.overdue(now_ns):
            self._target.handle(_summary(other))

    def flush(self) -> None:
        """Flush the target."""
        self._target.flush()

    def close(self) -> None:
        """Tell what was not told yet, and close the target."""
        self.acquire()
        try:
            for told in self._folder.rest(self._now_ns()):
                self._target.handle(_summary(told))
        finally:
            self.release()
        self._target.close()
        super().close()


def _text(record: logging.LogRecord) -> str:
    """The message; a mistake in its arguments is no reason to lose it."""
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - anything's __str__ may have been called
        text = f"{record.msg!s} (with unfit arguments)"
    left_out = len(text) - _MOST_TEXT
    if left_out <= 0:
        return text
    return f"{text[:_MOST_TEXT]}… ({left_out} characters left out)"


def _traceback(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return record.exc_text or ""
    lines = "".join(traceback.format_exception(record.exc_info[1])).splitlines()
    if len(lines) > _MOST_TRACEBACK_LINES:
        # The end says what happened.
        left_out = len(lines) - _MOST_TRACEBACK_LINES
        lines[:left_out] = [f"({left_out} lines left out)"]
    return "\n".join(line[:_MOST_TEXT] for line in lines)


def _key(record: logging.LogRecord, text: str) -> Hashable:
    """Equal for messages that differ in numbers only and were raised in one place."""
    kind = (record.name, record.levelno, pattern(text[:_MOST_KEY]))
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return kind
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return (*kind, type(error).__name__)
    return (*kind, type(error).__name__, place.tb_frame.f_code.co_name, place.tb_lineno)


def _shown(record: logging.LogRecord, told: Told, trace: str) -> logging.LogRecord:
    """The record as it is to be written; nothing of it can fail to be formatted."""
    shown = copy(record)
    shown.msg, shown.args = _words(told), None
    shown.exc_info, shown.stack_info = None, None
    shown.exc_text = trace if trace and told.is_whole else None
    return shown


def _summary(told: Told) -> logging.LogRecord:
    message = told.message
    return logging.LogRecord(
        message.logger, message.level, "", 0, _words(told), None, None
    )


def _words(told: Told) -> str:
    text = told.message.text
    if told.is_whole:
        return text
    text = text.partition("\n")[0]
    if told.times > 1:
        return f"repeated {told.times} times in {_span(told.span_ns)}: {text}"
    return f"{text} (the rest is left out)" if told.message.lines > 1 else text


def _span(span_ns: int) -> str:
    seconds = span_ns / 1e9
    for unit, length_s in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}"
    return f"{seconds:.1f} s"
