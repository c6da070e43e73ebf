"""Who must know that this process is a copy made by ``fork``.

Threads do not come along into the copy, but locks do, in whatever state they were.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Inheritable(Protocol):
    """Something with threads and locks."""

    def inherited(self) -> None:
        """Called in the copy, before anything else can use it: drop both."""
        ...


# The one global that changes: a hook cannot be taken back, so there is one for all.
_alive: WeakSet[Inheritable] = WeakSet()


def tell_copies(one: Inheritable) -> None:
    """Tell ``one`` when it finds itself in a copy of this process."""
    _alive.add(one)


def _tell() -> None:
    for one in list(_alive):
        one.inherited()


os.register_at_fork(after_in_child=_tell)
