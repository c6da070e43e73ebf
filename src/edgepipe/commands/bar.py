"""A progress bar for work of a known length; on a terminal only."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Steps:
    """Shows how much is done on stderr; silent where that is no terminal.

    Args:
        what: What is being done, in one or two words.
        enabled: False shows nothing.
    """

    def __init__(self, what: str, *, enabled: bool = True) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            # There is no stderr at all when it was closed before the start.
            disable=not enabled or sys.stderr is None or not sys.stderr.isatty(),
            transient=True,
            refresh_per_second=5,
        )
        self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> "Steps":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that so much of so much is done."""
        self._bar.update(self._task, completed=done, total=total)
