"""The requests of an engine: which one is free, which one runs, and for whom."""

from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.engine import Outputs
from edgepipe.models.shape_profile import ShapeProfile


class Slot(Protocol):
    """One request in one library: memory for its input and its outputs.

    :class:`Requests` sees to it that one thread at a time uses it, and in order.
    """

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """Run the network on images that are the caller's until this returns."""
        ...

    def start(self, images: NDArray[np.uint8]) -> None:
        """Copy the images into the slot's own memory and begin."""
        ...

    def finish(self) -> Outputs:
        """The outputs of what was started, when they are there."""
        ...

    def stop(self) -> None:
        """Ask what runs to end early; from any thread, and also if nothing runs."""
        ...


class _State(Enum):
    FREE = "free"
    SUBMITTED = "submitted and not waited for"
    BUSY = "in use by another thread"


class _Request:
    """A slot and what is being done with it."""

    def __init__(self, number: int, slot: Slot) -> None:
        self.slot = slot
        self._number = number
        self._state = _State.FREE
        self._cancelled = False
        self._lock = Lock()

    def take(self, wanted: _State, then: _State) -> None:
        """Go from one state to the next, if it is in the one."""
        with self._lock:
            if self._state is wanted:
                self._state = then
            elif wanted is _State.SUBMITTED and self._state is _State.FREE:
                raise EngineError(f"nothing was submitted to request {self._number}")
            else:
                raise EngineError(f"request {self._number} is {self._state.value}")

    def become(self, state: _State) -> None:
        """The thread that has taken it is done with it."""
        with self._lock:
            self._state = state

    def free(self) -> bool:
        """Let others have it, unless it was cancelled; whether that was done."""
        with self._lock:
            if not self._cancelled:
                self._state = _State.FREE
            return not self._cancelled

    def replace(self, slot: Slot) -> None:
        """Put a new slot in the place of one that was stopped."""
        with self._lock:
            self.slot, self._cancelled = slot, False

    def cancel(self) -> bool:
        """Stop what runs; whether nobody waits for it, so that it must be ended."""
        with self._lock:
            if self._state is _State.FREE:
                return False
            self._cancelled = True
            self.slot.stop()
            unattended = self._state is _State.SUBMITTED
            if unattended:
                self._state = _State.BUSY
            return unattended

    def explain(self, problem: str) -> EngineError:
        """Why a run failed: it was told to, or the library's reason."""
        if self._cancelled:
            return EngineError(f"request {self._number} was cancelled")
        return EngineError(problem)


class Requests:
    """What every engine does alike with its requests.

    Args:
        make: A new slot.
        n: How many there are.
        profile: What a request takes.
        errors: What the library raises.
        describe: One line for such an error.

    Raises:
        What ``make`` raises.
    """

    def __init__(
        self,
        make: Callable[[], Slot],
        n: int,
        profile: ShapeProfile,
        errors: tuple[type[Exception], ...],
        describe: Callable[[Exception], str],
    ) -> None:
        self._make = make
        self._profile = profile
        self._errors = errors
        self._describe = describe
        self._requests = [_Request(number, make()) for number in range(n)]

    def infer(self, images: NDArray[np.uint8], number: int) -> Outputs:
        """Run a request from beginning to end in the caller's thread."""
        request = self._at(number)
        self._profile.require_one_by_one(images.shape)
        request.take(_State.FREE, _State.BUSY)
        try:
            return request.slot.run(images)
        except self._errors as error:
            raise request.explain(self._describe(error)) from error
        finally:
            self._release(request)

    def submit(self, images: NDArray[np.uint8], number: int) -> None:
        """Begin; a failure leaves the request free."""
        request = self._at(number)
        self._profile.require(images.shape)
        request.take(_State.FREE, _State.BUSY)
        begun = False
        try:
            request.slot.start(images)
            begun = True
        except self._errors as error:
            raise request.explain(self._describe(error)) from error
        finally:
            if begun:
                request.become(_State.SUBMITTED)
            else:
                self._release(request)

    def wait(self, number: int) -> Outputs:
        """The outputs of what was submitted."""
        request = self._at(number)
        request.take(_State.SUBMITTED, _State.BUSY)
        try:
            return request.slot.finish()
        except self._errors as error:
            raise request.explain(self._describe(error)) from error
        finally:
            self._release(request)

    def cancel(self, number: int) -> None:
        """Give up what is in flight and leave the request free."""
        self._end(self._at(number))

    def slot(self, number: int) -> Slot:
        """The slot of a request, to be asked what it knows of its last run."""
        return self._at(number).slot

    def renew(self, number: int) -> None:
        """Put a new slot in the place of one that may never come back."""
        self._at(number)
        try:
            self._requests[number] = _Request(number, self._make())
        except self._errors as error:
            raise EngineError(self._describe(error)) from error

    def close(self) -> None:
        """End what is in flight and forget all slots."""
        requests, self._requests = self._requests, []
        for request in requests:
            self._end(request)
        # It holds the network, and libraries stop their threads with its last user.
        self.__dict__.pop("_make", None)

    def _end(self, request: _Request) -> None:
        if not request.cancel():
            return
        try:
            request.slot.finish()
        except self._errors:
            pass  # that it was cancelled is no news
        finally:
            self._release(request)

    def _release(self, request: _Request) -> None:
        """Free a request; one that was cancelled gets a new slot.

        Libraries let a cancellation that came just after the end meet the next run.
        """
        while not request.free():
            make = self.__dict__.get("_make")
            if make is None:
                return  # closed: nobody can reach it
            try:
                request.replace(make())
            except self._errors:
                request.become(_State.FREE)  # the old one, as good as it is
                return

    def _at(self, number: int) -> _Request:
        if not self._requests:
            raise EngineError("the engine has been closed")
        if not 0 <= number < len(self._requests):
            raise EngineError(
                f"no request {number}: the engine has {len(self._requests)}, from 0 on"
            )
        return self._requests[number]
