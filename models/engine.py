"""What a stage expects of an inference engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Outputs = Mapping[str, NDArray[np.float32]]
"""Output tensor name to array, batch first."""

ONE_BY_ONE = "one image after the other"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What was really loaded: goes into every run's summary."""

    engine: str
    """``openvino`` or ``onnxruntime``."""
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
    """Runs one network. Any object with these members is an engine.

    The input is (n, height, width, 3) uint8 in the card's colour order; mean, std and
    layout are the engine's work, folded into the graph where the library can do that.
    """

    @property
    def info(self) -> EngineInfo:
        """What was loaded."""
        ...

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """Run the network on request number ``request`` (0 .. requests - 1).

        Different requests may run at once from different threads. The arrays are
        valid until the next call with the same request. Batches of any size are taken;
        how they are run is in :attr:`info`.

        Raises:
            EngineError: The library failed.
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
