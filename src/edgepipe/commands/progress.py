"""The progress display: one line, on a terminal only."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

from edgepipe.assemble import Pipeline


class Progress:
    """Shows time, frames and misses while a run goes on; silent without a terminal.

    Args:
        duration_ns: Length of the measured part, None when it is not known.
        pipeline: What runs.
        enabled: False shows nothing.
    """

    def __init__(
        self, duration_ns: int | None, pipeline: Pipeline, *, enabled: bool
    ) -> None:
        self._pipeline = pipeline
        self._duration_ns = duration_ns
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=Console(stderr=True),
            # There is no stderr at all when it was closed before the start.
            disable=not enabled or sys.stderr is None or not sys.stderr.isatty(),
            transient=True,
            refresh_per_second=5,
        )
        total = None if duration_ns is None else duration_ns / 1e9
        self._task = self._bar.add_task("warming up", total=total, counts="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, now_ns: int) -> None:
        """Show the state at ``now_ns``."""
        if self._bar.disable:
            return
        done_s = (now_ns - self._pipeline.runtime.measure_from_ns) / 1e9
        self._bar.update(
            self._task,
            completed=max(0.0, done_s),
            description="measuring" if done_s >= 0 else "warming up",
            counts=self._counts(),
        )

    def _counts(self) -> str:
        accounts = [
            self._pipeline.runtime.account(stream.id)
            for stream in self._pipeline.config.all_streams
        ]
        captured = sum(account.captured for account in accounts)
        late = sum(account.late for account in accounts)
        lost = sum(
            sum(account.dropped.values()) + sum(account.failed.values())
            for account in accounts
        )
        return f"{captured} frames, {late} late, {lost} lost"
