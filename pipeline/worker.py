"""One worker's place: which thread it is, and what it is doing."""

from threading import Thread

from edgepipe.pipeline.stage import Stage
from edgepipe.pipeline.streams import Travelling
from edgepipe.scheduler.events import Start


class Worker:
    """A slot of a resource with the thread that works in it.

    Its thread writes what it is doing, others only read that; who abandons it does so
    under the runtime's lock.
    """

    __slots__ = (
        "begun_ns",
        "carried",
        "is_abandoned",
        "name",
        "number",
        "resource",
        "stage",
        "start",
        "thread",
    )

    def __init__(self, resource: str, number: int, generation: int = 0) -> None:
        self.resource = resource
        self.number = number
        """The slot, from 0: what stages are told."""
        self.name = f"edgepipe-{resource}-{number}"
        if generation:
            self.name += f"-{generation}"
        self.thread = Thread()
        """Replaced by its maker with one that works."""
        self.start: Start | None = None
        """What it works on; None while it has nothing to do."""
        self.begun_ns = 0
        """When that began."""
        self.carried: tuple[Travelling, ...] = ()
        """The frames of it."""
        self.stage: Stage | None = None
        """The stage that it entered last."""
        self.is_abandoned = False
        """Whether it hung for so long that nobody waits for it any more."""

    def enter(
        self, start: Start, begun_ns: int, carried: tuple[Travelling, ...]
    ) -> None:
        """Begin with something."""
        # In this order: whoever finds the start finds its time.
        self.begun_ns = begun_ns
        self.carried = carried
        self.start = start
