"""The onnxruntime engine: the second opinion on every number."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.batch import (
    BatchOutputs,
    images_profile,
    require_input,
    require_outputs,
    require_type,
)
from edgepipe.models.card import InputType, Layout, ModelCard, ModelFile
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.onnx_file import require_model_file
from edgepipe.models.requests import Requests

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
    RuntimeError,
)
"""What the library raises; they have no common base but Exception. With bound memory it
is RuntimeError."""
_TYPES: dict[str, str] = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}


class OnnxRuntimeEngine:
    """A session on the CPU with bound memory for each concurrent caller.

    ``infer`` runs in the caller's thread, ``submit`` in one of the engine's own, which
    there are none of until it is used: the library's ``run_async`` needs a pool of at
    least two threads, and edgepipe grants one.

    Args:
        card: What the file does not say: input size, colour, mean, std, outputs.
        file: The ONNX file; INT8 is a graph with QuantizeLinear/DequantizeLinear.
        requests: How many callers may infer at once, each with its own memory.
        threads_per_request: Threads that one inference may use, the caller's included.
        chosen_because: Goes into :attr:`info`.
        batch_max: Most images that will be submitted at once.

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
        batch_max: int = 1,
    ) -> None:
        require_model_file(file)
        self.profile = images_profile(card, batch_max)
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
        self._threads = ThreadPoolExecutor(requests, "onnxruntime request")
        try:
            self._requests = Requests(
                lambda: _Slot(session, card, batch_max, self._threads),
                requests,
                self.profile,
                _ERRORS,
                lambda error: f"onnxruntime failed: {_one_line(error)}",
            )
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
        return self._requests.infer(images, request)

    def submit(self, images: NDArray[np.uint8], request: int = 0) -> None:
        """See :class:`edgepipe.models.engine.AsyncEngine`."""
        self._requests.submit(images, request)

    def wait(self, request: int = 0) -> Outputs:
        """See :class:`edgepipe.models.engine.AsyncEngine`."""
        return self._requests.wait(request)

    def cancel(self, request: int = 0) -> None:
        """See :class:`edgepipe.models.engine.AsyncEngine`."""
        self._requests.cancel(request)

    def renew(self, request: int) -> None:
        """See :class:`edgepipe.models.engine.Engine`."""
        self._requests.renew(request)

    def close(self) -> None:
        """See :class:`edgepipe.models.engine.Engine`."""
        self._requests.close()
        self._threads.shutdown()


class _Slot:
    """Bound input and output memory of one caller."""

    def __init__(
        self,
        session: Any,
        card: ModelCard,
        batch_max: int,
        threads: ThreadPoolExecutor,
    ) -> None:
        self._session, self._threads = session, threads
        self._options = ort.RunOptions()
        self._write = _writer(card)
        self._images = np.empty((batch_max, card.height, card.width, 3), np.uint8)
        self._input = np.zeros(card.input_shape(), card.input_type.value)
        self._batch = BatchOutputs()
        self._running: Future[Outputs] | None = None
        # Output shapes can be symbolic in the file: one run tells.
        first = session.run(list(card.outputs), {card.input_name: self._input})
        self._one: dict[str, NDArray[np.float32]] = {}
        self._written: list[tuple[NDArray[Any], NDArray[np.float32]]] = []
        """Outputs that are no float32, such as class numbers, and where they go."""
        self._binding = session.io_binding()
        _bind(self._binding.bind_input, card.input_name, self._input)
        for name, array in zip(card.outputs, first, strict=True):
            written = np.empty(array.shape, array.dtype)
            _bind(self._binding.bind_output, name, written)
            self._one[name] = written.astype(np.float32, copy=False)
            if self._one[name] is not written:
                self._written.append((written, self._one[name]))

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._options.terminate = False
        return self._run(images)

    def start(self, images: NDArray[np.uint8]) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._options.terminate = False
        own = self._images[: len(images)]
        np.copyto(own, images)
        self._running = self._threads.submit(self._run, own)

    def finish(self) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        running, self._running = self._running, None
        return running.result() if running is not None else {}

    def stop(self) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._options.terminate = True

    def _run(self, images: NDArray[np.uint8]) -> Outputs:
        """Outputs of a batch; for one image they are the slot's own memory."""
        if len(images) == 1:
            return self._run_one(images[0])
        outputs: Outputs = {}
        for index, image in enumerate(images):
            outputs = self._batch.store(self._run_one(image), index, len(images))
        return outputs

    def _run_one(self, image: NDArray[np.uint8]) -> Outputs:
        """Outputs of one (height, width, 3) image, normalised on the way in."""
        self._write(image, self._input[0])
        self._session.run_with_iobinding(self._binding, self._options)
        for written, one in self._written:
            one[...] = written
        return self._one


def _bind(bind: Any, name: str, array: NDArray[Any]) -> None:
    """Let the session read or write a NumPy array in place."""
    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def _writer(card: ModelCard) -> Callable[[NDArray[np.uint8], NDArray[Any]], None]:
    """What writes an (height, width, 3) image into the network's own input."""
    mean, std = np.array(card.mean, np.float32), np.array(card.std, np.float32)
    if card.layout is Layout.NCHW:
        mean, std = mean[:, np.newaxis, np.newaxis], std[:, np.newaxis, np.newaxis]

    def ordered(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return image if card.layout is Layout.NHWC else np.moveaxis(image, 2, 0)

    def copy(image: NDArray[np.uint8], tensor: NDArray[Any]) -> None:
        np.copyto(tensor, ordered(image))

    def normalise(image: NDArray[np.uint8], tensor: NDArray[Any]) -> None:
        np.subtract(ordered(image), mean, out=tensor)
        np.divide(tensor, std, out=tensor)

    return copy if card.input_type is InputType.UINT8 else normalise


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
    for node in session.get_inputs():
        require_type(card, _TYPES.get(str(node.type), str(node.type)))
    require_outputs(card, [node.name for node in session.get_outputs()])


def _one_line(error: Exception) -> str:
    """The library's message on one line."""
    return " ".join(str(error).split())
