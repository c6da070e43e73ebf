"""What a stage expects of an inference engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.shape_profile import ShapeProfile

Outputs = Mapping[str, NDArray[np.float32]]
"""Output tensor name to array, batch first."""

ONE_BY_ONE = "one image after the other"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What was really loaded: goes into every run's summary."""

    engine: str
    """``openvino``, ``onnxruntime``, ``torch`` or ``torch-cuda``."""
    version: str
    device: str
    """Processor the network runs on, as the library names it."""
    precision: str
    """Precision of the model file: ``int8`` or ``fp32``."""
    executed_precision: str
    """What the library executes in, for example ``int8, rest f32``."""
    threads_per_request: int
    requests: int
    chosen_because: str
    """Why this engine: ``asked for by name``, or how ``auto`` decided."""
    batch_max: int = 1
    """Most images that it runs in one go; a longer batch, or any batch where this is
    1, is run one image after the other."""
    batching: str = ONE_BY_ONE
    """How a batch is run, and why."""


class Engine(Protocol):
    """Runs one network: what a detector and a classifier need of an engine.

    The input is (n, height, width, 3) uint8 in the card's colour order; mean, std and
    layout are the engine's work, folded into the graph where the library can do that.
    """

    @property
    def info(self) -> EngineInfo:
        """What was loaded."""
        ...

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """Run the network on request number ``request`` (0 .. requests - 1).

        Different requests may run at once, and any thread may use any of them, one
        at a time. The images are read where they lie and are the caller's again when
        this returns; the arrays are the request's, valid until the next call with the
        same request. Batches of any size are taken; how they are run is in
        :attr:`info`.

        Raises:
            EngineError: The library failed, the images have another shape than the
                network takes, or the request is in use.
        """
        ...

    def renew(self, request: int) -> None:
        """Make another request of this number: a thread hangs that may use the old one.

        Raises:
            EngineError: The library failed.
        """
        ...

    def close(self) -> None:
        """Release memory and threads; calling it again does nothing."""
        ...


class AsyncEngine(Engine, Protocol):
    """An engine whose requests can be begun in one place and waited for in another.

    A request is free, submitted, or in use by a thread that is inside ``infer`` or
    ``wait``. Only a free one can be submitted or used to infer, only a submitted one
    be waited for: everything else is refused, in whatever thread it happens.
    ``infer`` does what ``submit`` and ``wait`` do, without the copy.
    """

    @property
    def profile(self) -> ShapeProfile:
        """What a request takes at once: (n, height, width, 3)."""
        ...

    def submit(self, images: NDArray[np.uint8], request: int = 0) -> None:
        """Begin to run the network on a request.

        The images are copied into the request's own input memory, which holds what
        :attr:`profile` allows; they are the caller's again when this returns.

        Raises:
            EngineError: The shape is outside the profile, the request is not free, or
                the library failed; the request is as it was.
        """
        ...

    def wait(self, request: int = 0) -> Outputs:
        """The outputs of what was submitted, as those of :meth:`infer`.

        Raises:
            EngineError: Nothing was submitted, the library failed, or the request was
                cancelled; the request is free then.
        """
        ...

    def cancel(self, request: int = 0) -> None:
        """Give up what is in flight; of a free request: do nothing.

        A submitted request is free when this returns. A thread inside ``infer`` or
        ``wait`` is not waited for: it gets an EngineError, unless the network had
        just ended. ``close`` does the same with all requests.
        """
        ...
