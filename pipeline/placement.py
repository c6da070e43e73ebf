"""Where a worker's thread may run, and with what priority."""

import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """What is asked of the operating system for the threads of one resource."""

    cpus: tuple[int, ...] = ()
    """Numbers of the processors that they may use; empty: all."""
    realtime_priority: int | None = None
    """1 to 99 of SCHED_FIFO; None: the ordinary time sharing."""

    def apply(self) -> str:
        """Ask for the calling thread; return what was granted and what was refused.

        Native threads that it starts later inherit both; those that libraries keep
        stay where they are.
        """
        return ", ".join((*self._bind(), *self._raise()))

    def _bind(self) -> Iterator[str]:
        if not self.cpus:
            return
        cpus = f"cpus {' '.join(map(str, self.cpus))}"
        try:
            os.sched_setaffinity(0, self.cpus)
        except (OSError, ValueError) as error:
            yield f"{cpus} refused: {error}"
        else:
            # The system leaves out processors that do not exist without a word.
            missing = set(self.cpus) - os.sched_getaffinity(0)
            without = f" refused: no {' '.join(map(str, sorted(missing)))}"
            yield cpus + (without if missing else "")

    def _raise(self) -> Iterator[str]:
        if self.realtime_priority is None:
            return
        fifo = f"SCHED_FIFO {self.realtime_priority}"
        try:
            os.sched_setscheduler(
                0, os.SCHED_FIFO, os.sched_param(self.realtime_priority)
            )
        except OSError as error:
            yield f"{fifo} refused: {error}"
        else:
            yield fifo


ANYWHERE = Placement()
"""Nothing is asked."""
