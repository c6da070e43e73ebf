"""Which worker hangs: the rule, without a thread or a clock."""

from collections.abc import Iterable, Mapping

from edgepipe.pipeline.streams import StreamRun
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.events import JobDone, Start

HANG_AFTER_NS = 10_000_000_000
"""A stage that has not come back for so long hangs, unless it is known to be slow."""

TIMES = 3
"""One that is known to be slow hangs after so many times what it needs."""


class Watchdog:
    """Knows how long each step may take. The caller serialises the calls.

    A step may take ``TIMES`` as long as its budget says, or as the longest run that
    came to an end, and never less than ``hang_after_ns``. If the look itself comes far
    too late, everything stood still (a debugger, ``Ctrl-Z``, a paused machine), and
    nobody is blamed for that.
    """

    def __init__(self, streams: Mapping[str, StreamRun], hang_after_ns: int) -> None:
        self._streams = streams
        self._hang_after_ns = hang_after_ns
        self.worth_noting_ns = hang_after_ns // TIMES
        """What comes back sooner changes nothing: there is no need to note it."""
        self._longest_ns: dict[tuple[str, int], int] = {}
        self._asked_ns: int | None = None
        """When the next look was to be."""

    def note(self, done: JobDone) -> None:
        """A job has come back after a time that is worth noting."""
        for job in done.jobs:
            key = job.stream, job.step
            longest_ns = self._longest_ns.get(key, 0)
            self._longest_ns[key] = max(longest_ns, done.service_ns)

    def look(
        self, workers: Iterable[Worker], now_ns: int
    ) -> tuple[list[tuple[Worker, Start]], int]:
        """Who hangs and in what, and when to look again."""
        hung: list[tuple[Worker, Start]] = []
        again_ns = now_ns + self._hang_after_ns
        asked_ns, self._asked_ns = self._asked_ns, again_ns
        if asked_ns is not None and now_ns - asked_ns > self._hang_after_ns // 2:
            return hung, again_ns
        for worker in workers:
            start = worker.start
            if start is None or getattr(worker.stage, "waits", False):
                continue
            due_ns = worker.begun_ns + self.allowed_ns(start)
            if due_ns > now_ns:
                again_ns = min(again_ns, due_ns)
            elif worker.start is start:
                hung.append((worker, start))
        self._asked_ns = again_ns
        return hung, again_ns

    def allowed_ns(self, start: Start) -> int:
        """How long these jobs may take before somebody worries."""
        known_ns = 0
        for job in start.jobs:
            step = self._streams[job.stream].plan.spec.steps[job.step]
            longest_ns = self._longest_ns.get((job.stream, job.step), 0)
            known_ns += max(step.cost_ns, longest_ns)
        return max(self._hang_after_ns, TIMES * known_ns)
