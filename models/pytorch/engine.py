"""The PyTorch engine: on processors a third opinion, on NVIDIA's GPUs an engine."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.batch import (
    BatchOutputs,
    images_profile,
    require_input,
    require_outputs,
    require_type,
)
from edgepipe.models.card import InputType, Layout, ModelCard, ModelFile
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.inspect import reading
from edgepipe.models.onnx_file import require_model_file
from edgepipe.models.pytorch.library import torch
from edgepipe.models.pytorch.network import TorchNetwork
from edgepipe.models.requests import Requests

CPU, CUDA = "cpu", "cuda"
_EXECUTED = {"fp32": "f32", "int8": "int8 simulated in f32"}


class TorchEngine:
    """A network run operator by operator, on a processor.

    ``infer`` runs in the caller's thread, ``submit`` in one of the engine's own.
    PyTorch has one number of threads for the whole process: the last engine that was
    loaded sets it.

    Args:
        card: What the file does not say: input size, colour, mean, std, outputs.
        file: The ONNX file; INT8 is simulated.
        requests: How many callers may infer at once, each with its own memory.
        threads_per_request: Threads that one inference may use.
        chosen_because: Goes into :attr:`info`.
        batch_max: Most images that will be submitted at once.

    Raises:
        ModelError: The file cannot be read or does not fit the card.
        EngineError: PyTorch cannot run the network.
    """

    device = CPU

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
        device_name = self._open(threads_per_request)
        network = _network(card, file.path, self.device)
        self._threads = ThreadPoolExecutor(requests, "torch request")
        try:
            self._requests = Requests(
                lambda: self._slot(network, card, batch_max),
                requests,
                self.profile,
                (RuntimeError,),
                lambda error: f"torch failed: {_one_line(error)}",
            )
        except RuntimeError as error:
            raise EngineError(
                f"torch cannot run {file.path}: {_one_line(error)}"
            ) from error
        self.info = EngineInfo(
            engine="torch" if self.device == CPU else "torch-cuda",
            version=str(torch.__version__),
            device=device_name,
            precision=file.precision,
            executed_precision=_EXECUTED.get(file.precision, file.precision),
            threads_per_request=threads_per_request,
            requests=requests,
            chosen_because=chosen_because,
        )

    def _open(self, threads: int) -> str:
        """Make the device ready; its name."""
        torch.set_num_threads(threads)
        return "CPU"

    def _slot(self, network: TorchNetwork, card: ModelCard, batch_max: int) -> Any:
        return _CpuSlot(network, card, batch_max, self._threads)

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


class TorchCudaEngine(TorchEngine):
    """The same on the first NVIDIA GPU.

    Each request has a stream of its own, pinned memory for images and outputs, and
    needs no thread: ``submit`` returns as soon as everything is in the stream. Any
    thread may use any request. Products of floats are computed as floats, not in the
    shorter TF32, in the whole process.
    """

    device = CUDA

    def _open(self, threads: int) -> str:
        if not torch.cuda.is_available():
            raise EngineError("torch finds no CUDA device: use engine torch")
        torch.set_num_threads(threads)
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        return str(torch.cuda.get_device_name(0))

    def _slot(self, network: TorchNetwork, card: ModelCard, batch_max: int) -> Any:
        return _CudaSlot(network, card, batch_max)

    def phases_ns(self, request: int = 0) -> Mapping[str, int]:
        """See :class:`edgepipe.models.timing.Phased`."""
        slot: Any = self._requests.slot(request)
        found: Mapping[str, int] = slot.phases_ns()
        return found


class _Slot:
    """One request: the image's way in, and the network."""

    def __init__(self, network: TorchNetwork, card: ModelCard, device: str) -> None:
        self._network = network
        self._stopped = False
        self._card = card
        self._mean, self._std = (
            torch.tensor(each, dtype=torch.float32, device=device)
            for each in (card.mean, card.std)
        )

    def stop(self) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._stopped = True

    def _run_one(self, image: Any) -> dict[str, Any]:
        """Outputs of one (1, height, width, 3) image of bytes."""
        if self._card.input_type is InputType.FLOAT32:
            image = (image.to(torch.float32) - self._mean) / self._std
        if self._card.layout is Layout.NCHW:
            image = image.permute(0, 3, 1, 2).contiguous()
        return self._network.run(image, lambda: self._stopped)


class _CpuSlot(_Slot):
    def __init__(
        self,
        network: TorchNetwork,
        card: ModelCard,
        batch_max: int,
        threads: ThreadPoolExecutor,
    ) -> None:
        super().__init__(network, card, CPU)
        self._threads = threads
        self._images = np.empty((batch_max, card.height, card.width, 3), np.uint8)
        self._batch = BatchOutputs()
        self._running: Future[Outputs] | None = None

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._stopped = False
        return self._run(images)

    def start(self, images: NDArray[np.uint8]) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._stopped = False
        own = self._images[: len(images)]
        np.copyto(own, images)
        self._running = self._threads.submit(self._run, own)

    def finish(self) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        running, self._running = self._running, None
        return running.result() if running is not None else {}

    def _run(self, images: NDArray[np.uint8]) -> Outputs:
        outputs: Outputs = {}
        with torch.inference_mode():
            for index, image in enumerate(images):
                tensor = torch.from_numpy(np.ascontiguousarray(image))[None]
                one = {
                    name: value.to(torch.float32).numpy()
                    for name, value in self._run_one(tensor).items()
                }
                outputs = self._batch.store(one, index, len(images))
        return outputs


class _CudaSlot(_Slot):
    def __init__(self, network: TorchNetwork, card: ModelCard, batch_max: int) -> None:
        super().__init__(network, card, CUDA)
        self._stream = torch.cuda.Stream()
        self._marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        shape = (batch_max, card.height, card.width, 3)
        self._images = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self._outputs: dict[str, Any] = {}
        self._n = 0

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        most = len(self._images)
        if len(images) <= most:
            self.start(images)
            return self.finish()
        parts: list[dict[str, NDArray[np.float32]]] = []
        for first in range(0, len(images), most):
            self.start(images[first : first + most])
            parts.append({name: out.copy() for name, out in self.finish().items()})
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def start(self, images: NDArray[np.uint8]) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._stopped = False
        self._n = len(images)
        np.copyto(self._images[: self._n].numpy(), images)
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            self._marks[0].record()
            on_device = self._images[: self._n].to(CUDA, non_blocking=True)
            self._marks[1].record()
            made = [self._run_one(on_device[i : i + 1]) for i in range(self._n)]
            self._marks[2].record()
            for index, one in enumerate(made):
                for name, value in one.items():
                    self._pinned(name, value)[index].copy_(value[0], non_blocking=True)
            self._marks[3].record()

    def finish(self) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._marks[3].synchronize()
        return {name: out[: self._n].numpy() for name, out in self._outputs.items()}

    def phases_ns(self) -> dict[str, int]:
        """Between the marks of the last run."""
        names = ("h2d", "compute", "d2h")
        pairs = zip(names, self._marks, self._marks[1:], strict=False)
        return {name: round(a.elapsed_time(b) * 1e6) for name, a, b in pairs}

    def _pinned(self, name: str, value: Any) -> Any:
        """Memory of the host for an output of the largest batch."""
        if name not in self._outputs:
            shape = (len(self._images), *value.shape[1:])
            self._outputs[name] = torch.empty(
                shape, dtype=torch.float32, pin_memory=True
            )
        return self._outputs[name]


def _network(card: ModelCard, path: Path, device: str) -> TorchNetwork:
    """The file's network, checked against the card."""
    model = reading.read(path)
    graph = reading.graph_of(model)
    require_input(
        card,
        {
            each.name: [d if isinstance(d, int) else None for d in each.shape or ()]
            for each in graph.inputs
        },
    )
    require_type(card, graph.inputs[0].dtype)
    require_outputs(card, [each.name for each in graph.outputs])
    header = reading.header_of(model)
    return TorchNetwork(
        graph,
        header.opsets.get("ai.onnx", 1),
        _constants(model, path),
        card.input_shape(),
        card.outputs,
        device,
    )


def _constants(model: onnx.ModelProto, path: Path) -> dict[str, NDArray[Any]]:
    """All stored tensors, those in other files included."""
    try:
        return {
            each.name: numpy_helper.to_array(each, str(path.parent))
            for each in model.graph.initializer
        }
    except (TypeError, ValueError, OSError) as error:
        raise ModelError(f"{path}: cannot read its weights: {error}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
