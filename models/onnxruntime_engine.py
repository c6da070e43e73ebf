"""The onnxruntime engine: the second opinion on every number."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.batch import (
    BatchOutputs,
    require_images,
    require_input,
    require_outputs,
)
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.onnx_file import require_model_file

# onnxruntime ships no type information.
ort: Any = import_module("onnxruntime")
_state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")

_ERRORS: tuple[type[Exception], ...] = (
    _state.EPFail,
    _state.Fail,
    _state.InvalidArgument,
    _state.InvalidGraph,
    _state.InvalidProtobuf,
    _state.NotImplemented,
    _state.RuntimeException,
)
"""What the library raises; they have no common base but Exception."""


class OnnxRuntimeEngine:
    """A session on the CPU with bound memory for each concurrent caller.

    Args:
        card: What the file does not say: input size, colour, mean, std, outputs.
        file: The ONNX file; INT8 is a graph with QuantizeLinear/DequantizeLinear.
        requests: How many callers may infer at once, each with its own memory.
        threads_per_request: Threads that one inference may use, the caller's included.
        chosen_because: Goes into :attr:`info`.

    Raises:
        ModelError: The file cannot be read or does not fit the card.
        EngineError: onnxruntime cannot run the network.
    """

    def __init__(
        self,
        card: ModelCard,
        file: ModelFile,
        *,
        requests: int,
        threads_per_request: int,
        chosen_because: str,
    ) -> None:
        require_model_file(file)
        self._height, self._width = card.height, card.width
        try:
            session = ort.InferenceSession(
                str(file.path),
                _options(threads_per_request),
                providers=["CPUExecutionProvider"],
            )
        except _ERRORS as error:
            raise EngineError(
                f"onnxruntime cannot load {file.path}: {_one_line(error)}"
            ) from error
        _check(session, card)
        try:
            self._requests = [_Request(session, card) for _ in range(requests)]
            self._session, self._card = session, card
        except _ERRORS as error:
            raise EngineError(
                f"onnxruntime cannot run {file.path} on {card.width}x{card.height} "
                f"images: {_one_line(error)}"
            ) from error
        self.info = EngineInfo(
            engine="onnxruntime",
            version=ort.__version__,
            device="CPU",
            precision=file.precision,
            executed_precision=f"{file.precision} (from the file, kernels unknown)",
            threads_per_request=threads_per_request,
            requests=requests,
            chosen_because=chosen_because,
        )

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """See :class:`edgepipe.models.engine.Engine`."""
        if not self._requests:
            raise EngineError("the engine has been closed")
        require_images(images, self._height, self._width)
        try:
            return self._requests[request].run(images)
        except _ERRORS as error:
            raise EngineError(f"onnxruntime failed: {_one_line(error)}") from error

    def renew(self, request: int) -> None:
        """See :class:`edgepipe.models.engine.Engine`."""
        try:
            self._requests[request] = _Request(self._session, self._card)
        except _ERRORS as error:
            raise EngineError(f"onnxruntime failed: {_one_line(error)}") from error

    def close(self) -> None:
        """See :class:`edgepipe.models.engine.Engine`."""
        self._requests = []
        self._session = None


class _Request:
    """Bound input and output memory of one caller."""

    def __init__(self, session: Any, card: ModelCard) -> None:
        self._session = session
        self._mean = np.array(card.mean, np.float32)[:, np.newaxis, np.newaxis]
        self._std = np.array(card.std, np.float32)[:, np.newaxis, np.newaxis]
        self._input = np.zeros((1, 3, card.height, card.width), np.float32)
        self._batch = BatchOutputs()
        # Output shapes can be symbolic in the file: one run tells.
        first = session.run(list(card.outputs), {card.input_name: self._input})
        self._one: dict[str, NDArray[np.float32]] = {
            name: np.empty(array.shape, np.float32)
            for name, array in zip(card.outputs, first, strict=True)
        }
        self._binding = session.io_binding()
        self._bind(self._binding.bind_input, card.input_name, self._input)
        for name, array in self._one.items():
            self._bind(self._binding.bind_output, name, array)

    @staticmethod
    def _bind(bind: Any, name: str, array: NDArray[np.float32]) -> None:
        """Let the session read or write a NumPy array in place."""
        bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """Outputs of a batch; for one image they are the request's own memory."""
        if len(images) == 1:
            return self._run_one(images[0])
        outputs: Outputs = {}
        for index, image in enumerate(images):
            outputs = self._batch.store(self._run_one(image), index, len(images))
        return outputs

    def _run_one(self, image: NDArray[np.uint8]) -> Outputs:
        """Outputs of one (height, width, 3) image, normalised on the way in."""
        tensor = self._input[0]
        np.subtract(np.moveaxis(image, 2, 0), self._mean, out=tensor)
        np.divide(tensor, self._std, out=tensor)
        self._session.run_with_iobinding(self._binding)
        return self._one


def _options(threads: int) -> Any:
    """Session options: the granted threads, which sleep when there is no work."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def _check(session: Any, card: ModelCard) -> None:
    """Compare the session's inputs and outputs with the card."""
    require_input(
        card,
        {
            node.name: [size if isinstance(size, int) else None for size in node.shape]
            for node in session.get_inputs()
        },
    )
    require_outputs(card, [node.name for node in session.get_outputs()])


def _one_line(error: Exception) -> str:
    """The library's message on one line."""
    return " ".join(str(error).split())
