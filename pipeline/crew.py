"""The workers of all resources: their threads, where they run, and who was lost."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from threading import Lock, Thread

from edgepipe.pipeline.execute import Executor
from edgepipe.pipeline.placement import ANYWHERE, Placement
from edgepipe.pipeline.stage import Stage
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.events import JobDone, JobFailed, Start
from edgepipe.scheduler.job import Resource

log = logging.getLogger("edgepipe")

MOST_REPLACED = 8
"""Threads of one run that are replaced because they hang; with one more it ends."""

Finish = Callable[[Worker, JobDone | JobFailed], Start | None]
"""Takes what became of a job; returns the worker's next one, if there is one."""


class Crew:
    """One thread for each slot of each resource, and another for each that hangs.

    Args:
        resources: What jobs run on.
        placements: Where the threads of a resource may run, by its name.
        executor: Runs the jobs.
        stages: All that jobs may meet: they are told who was lost.
        finish: See :data:`Finish`; called by the workers.
        make_thread: Makes a thread of a name that calls a function.
    """

    def __init__(
        self,
        resources: Sequence[Resource],
        placements: Mapping[str, Placement],
        executor: Executor,
        stages: Iterable[Stage],
        finish: Finish,
        make_thread: Callable[..., Thread],
    ) -> None:
        self._placements = placements
        self._executor = executor
        self._stages = {id(each): each for each in stages if hasattr(each, "renew")}
        self._finish = finish
        self._make_thread = make_thread
        self._lock = Lock()
        self._placed: dict[str, str] = {}
        self.queues: dict[str, SimpleQueue[Start | None]] = {
            resource.name: SimpleQueue() for resource in resources
        }
        """What is to be started, by resource; None ends one worker."""
        self.lost: list[Worker] = []
        """Those that hang; whoever reads it holds the runtime's lock."""
        self.workers = [
            self._make(resource.name, number)
            for resource in resources
            for number in range(resource.slots)
        ]

    def _make(self, resource: str, number: int, generation: int = 0) -> Worker:
        worker = Worker(resource, number, generation)
        worker.thread = self._make_thread(
            worker.name, self._work, worker, bool(generation)
        )
        return worker

    def start(self) -> None:
        """Start all threads."""
        for worker in self.workers:
            worker.thread.start()

    def end(self) -> None:
        """Let every thread end once it has nothing more to do."""
        for worker in self.workers:
            self.queues[worker.resource].put(None)

    @property
    def running(self) -> int:
        """Workers that have something to do at this instant."""
        return sum(worker.start is not None for worker in self.workers)

    @property
    def placed(self) -> dict[str, str]:
        """For each thread with a placement, what the system granted and refused."""
        with self._lock:
            return dict(self._placed)

    def replace(self, worker: Worker) -> bool:
        """Give a worker up that hangs; another one takes its place.

        The caller holds the runtime's lock. False: too many hang, nobody takes it.
        """
        worker.is_abandoned = True
        for travelling in worker.carried:
            travelling.is_abandoned = True
        self.lost.append(worker)
        if len(self.lost) > MOST_REPLACED:
            return False
        heir = self._make(worker.resource, worker.number, len(self.lost))
        self.workers[self.workers.index(worker)] = heir
        heir.thread.start()
        return True

    # --- in the workers' threads ------------------------------------------------------

    def _work(self, worker: Worker, is_replacement: bool) -> None:
        """Run jobs of one resource until told to stop, or abandoned."""
        self._place(worker)
        if is_replacement:
            self._renew(worker)
        run, finish = self._executor.run, self._finish
        queue = self.queues[worker.resource]
        start: Start | None = None
        while True:
            if start is None:
                start = queue.get()
                if start is None:
                    return
            # The next job of this resource is taken over at once: no hand-off.
            start = finish(worker, run(start, worker))
            if worker.is_abandoned:
                return

    def _place(self, worker: Worker) -> None:
        placement = self._placements.get(worker.resource, ANYWHERE)
        if placement == ANYWHERE:
            return
        granted = placement.apply()
        with self._lock:
            self._placed[worker.name] = granted
        if "refused" in granted:
            log.warning("%s: %s", worker.name, granted)

    def _renew(self, worker: Worker) -> None:
        """Tell the stages that the thread which had this number may still be there."""
        for stage in self._stages.values():
            renew: Callable[[int], None] = getattr(stage, "renew")  # noqa: B009
            try:
                renew(worker.number)
            except Exception as error:  # a stage's edge: its frames will fail
                if self._executor.errors.add(stage.name, repr(error)):
                    log.exception("stage %s cannot be renewed", stage.name)
