"""The OpenVINO engine: INT8 and FP32 networks on a CPU."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.batch import (
    BatchOutputs,
    images_profile,
    require_input,
    require_outputs,
    require_type,
)
from edgepipe.models.card import InputType, ModelCard, ModelFile
from edgepipe.models.engine import ONE_BY_ONE, EngineInfo, Outputs
from edgepipe.models.onnx_file import require_model_file
from edgepipe.models.openvino_batch import keep_images_apart
from edgepipe.models.openvino_graph import join_signed_pairs
from edgepipe.models.openvino_library import import_openvino
from edgepipe.models.requests import Requests

ov: Any = import_openvino()


BATCHED = ("int8",)
"""Precisions of which a batch is run in one go. One thread of a shared EPYC machine,
2026-11-30, cost of a batch of four by that of four images (benchmarks/batching.py):
NanoDet-g in INT8 0.90, in FP32 1.02. By a rule and not by a measurement at the start:
the same configuration then computes the same everywhere."""


class OpenVinoEngine:
    """A compiled network with one inference request for each concurrent caller.

    Networks are compiled for one image and, where it pays, for each size of batch.

    Args:
        card: What the file does not say: input size, colour, mean, std, outputs.
        file: The ONNX file; INT8 is a graph with QuantizeLinear/DequantizeLinear.
        requests: How many callers may infer at once, each with its own request.
        threads_per_request: Threads that one inference may use.
        chosen_because: Goes into :attr:`info`.
        batch_max: Most images that will be given at once.

    Raises:
        ModelError: The file cannot be read or does not fit the card.
        EngineError: OpenVINO cannot run the network.
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
        self._core = ov.Core()
        options = {
            "NUM_STREAMS": requests,
            "INFERENCE_NUM_THREADS": requests * threads_per_request,
            "ENABLE_CPU_PINNING": False,
            # Never BF16 behind the user's back, which is what OpenVINO does on a CPU
            # with AMX. For the float rest of an INT8 network BF16 is worth 6 % of
            # NanoDet-g, and costs equal results everywhere.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        try:
            compiled = [_compile(self._core, file, card, 1, options)]
        except RuntimeError as error:
            raise EngineError(
                f"openvino cannot compile {file.path}: {_last_line(error)}"
            ) from error
        batching = ONE_BY_ONE
        if batch_max > 1 and file.precision in BATCHED:
            try:
                for size in range(2, batch_max + 1):
                    network = _compile(self._core, file, card, size, options)
                    _require_rows(network, compiled[0], card, size)
                    compiled.append(network)
                    batching = f"up to {size} images in one go"
            except (RuntimeError, ModelError) as error:
                batching += f"; not more: {_last_line(error)}"
        elif batch_max > 1:
            batching += f": a batch is no cheaper in {file.precision}"
        try:
            self._requests = Requests(
                lambda: _Slot(compiled, card, batch_max),
                requests,
                self.profile,
                (RuntimeError,),
                _failed,
            )
        except RuntimeError as error:
            raise EngineError(_failed(error)) from error
        self.info = EngineInfo(
            engine="openvino",
            version=ov.__version__,
            device=str(self._core.get_property("CPU", "FULL_DEVICE_NAME")).strip(),
            precision=file.precision,
            executed_precision=_executed_precision(compiled[0]),
            threads_per_request=threads_per_request,
            requests=requests,
            chosen_because=chosen_because,
            batch_max=len(compiled),
            batching=batching,
        )

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """See :class:`edgepipe.models.engine.Engine`.

        The images are read where they lie; one that is not contiguous is copied.
        """
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
        # OpenVINO stops its threads with the last reference to the network.
        self.__dict__.pop("_core", None)


class _Slot:
    """One caller's inference requests, by the size of the batch."""

    def __init__(self, compiled: Sequence[Any], card: ModelCard, most: int) -> None:
        self._sized = [_Sized(network, card.outputs) for network in compiled]
        self._batch = BatchOutputs()
        self._images = np.empty((most, card.height, card.width, 3), np.uint8)
        self._started = 0

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        images = np.ascontiguousarray(images)
        self._begin(images)
        return self._end(images)

    def start(self, images: NDArray[np.uint8]) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        self._started = len(images)
        own = self._images[: self._started]
        np.copyto(own, images)
        self._begin(own)

    def finish(self) -> Outputs:
        """See :class:`edgepipe.models.requests.Slot`."""
        return self._end(self._images[: self._started])

    def stop(self) -> None:
        """See :class:`edgepipe.models.requests.Slot`."""
        for sized in self._sized:
            sized.stop()

    def _begin(self, images: NDArray[np.uint8]) -> None:
        """Start the whole batch, or the first image of one that is too large."""
        n = len(images)
        if n <= len(self._sized):
            self._sized[n - 1].start(images)
        else:
            self._sized[0].start(images[:1])

    def _end(self, images: NDArray[np.uint8]) -> Outputs:
        """Outputs of a batch, in the slot's own memory."""
        n = len(images)
        if n <= len(self._sized):
            return self._sized[n - 1].outputs()
        one = self._sized[0]
        outputs = self._batch.store(one.outputs(), 0, n)
        for index in range(1, n):
            one.start(images[index : index + 1])
            outputs = self._batch.store(one.outputs(), index, n)
        return outputs


class _Sized:
    """One inference request for batches of one size, and the memory of its outputs."""

    def __init__(self, compiled: Any, outputs: tuple[str, ...]) -> None:
        self._request = compiled.create_infer_request()
        self._input: Any = None
        self._outputs: dict[str, NDArray[np.float32]] = {}
        for name in outputs:
            array = np.empty(tuple(compiled.output(name).shape), np.float32)
            self._request.set_tensor(name, ov.Tensor(array, shared_memory=True))
            self._outputs[name] = array

    def start(self, images: NDArray[np.uint8]) -> None:
        """Begin to run (size, height, width, 3) images, which stay where they lie."""
        tensor = ov.Tensor(images, shared_memory=True)
        self._request.set_input_tensor(tensor)
        self._input = tensor
        # Unlike infer(), this lets go of the GIL once for the whole inference.
        self._request.start_async()

    def outputs(self) -> Outputs:
        """What came out, once it is there."""
        self._request.wait()
        return self._outputs

    def stop(self) -> None:
        """Let a run that is under way end with an error."""
        self._request.cancel()


def _compile(
    core: Any, file: ModelFile, card: ModelCard, size: int, options: dict[str, Any]
) -> Any:
    """The file's network for batches of one size."""
    model = _with_preprocessing(_read(core, file, card, size), card)
    return core.compile_model(model, "CPU", options)


def _require_rows(network: Any, single: Any, card: ModelCard, size: int) -> None:
    """Every output must have a row for each image, shaped like that of one image.

    A batch of one that was written into the graph is put right where it can be found;
    where not, all images' rows come out as those of one, or only one's come out.

    Raises:
        ModelError: An output has another shape.
    """
    for name in card.outputs:
        shape = tuple(network.output(name).shape)
        wanted = (size, *tuple(single.output(name).shape)[1:])
        if shape != wanted:
            raise ModelError(
                f"output {name!r} is {shape} for {size} images, not {wanted}"
            )


def _read(core: Any, file: ModelFile, card: ModelCard, size: int = 1) -> Any:
    """The file's network at the card's size, for batches of ``size``."""
    try:
        model = core.read_model(str(file.path))
    except RuntimeError as error:
        raise EngineError(
            f"openvino cannot read {file.path}: {_last_line(error)}"
        ) from error
    shapes = {port.any_name: _dimensions(port.partial_shape) for port in model.inputs}
    require_input(card, shapes)
    for port in model.inputs:
        require_type(card, np.dtype(port.element_type.to_dtype()).name)
    require_outputs(card, [name for port in model.outputs for name in port.names])
    join_signed_pairs(model)
    if None in shapes[card.input_name] or size > 1:
        try:
            model.reshape({card.input_name: list(card.input_shape(size))})
            if size > 1:
                keep_images_apart(model, size)
        except RuntimeError as error:
            raise ModelError(
                f"model {card.name!r} cannot take {card.width}x{card.height} images: "
                f"{_last_line(error)}"
            ) from error
    return model


def _dimensions(shape: Any) -> list[int | None]:
    """The sizes of a shape, None where free."""
    if shape.rank.is_dynamic:
        return []
    return [None if size.is_dynamic else size.get_length() for size in shape]


def _with_preprocessing(model: Any, card: ModelCard) -> Any:
    """The network with uint8 channels-last input, mean and std in the graph."""
    steps = ov.preprocess.PrePostProcessor(model)
    info = steps.input(card.input_name)
    info.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    info.model().set_layout(ov.Layout(card.layout.name))
    if card.input_type is InputType.FLOAT32:
        info.preprocess().convert_element_type(ov.Type.f32).mean(list(card.mean)).scale(
            list(card.std)
        )
    for name in card.outputs:
        steps.output(name).tensor().set_element_type(ov.Type.f32)
    return steps.build()


def _executed_precision(compiled: Any) -> str:
    """Precisions of the layers that do the arithmetic, as the runtime reports them."""
    heavy: Counter[str] = Counter()
    for node in compiled.get_runtime_model().get_ordered_ops():
        info: Any = node.get_rt_info()
        if str(info["layerType"].value) in ("Convolution", "FullyConnected", "MatMul"):
            precision = str(info["runtimePrecision"].value)
            heavy["int8" if precision in ("i8", "u8") else precision] += 1
    if "int8" not in heavy:
        return ", ".join(sorted(heavy)) or "f32"
    share = f"int8 ({heavy['int8']} of {heavy.total()} layers)"
    rest = sorted(set(heavy) - {"int8"}) or ["f32"]
    return f"{share}, rest {', '.join(rest)}"


def _failed(error: Exception) -> str:
    return f"openvino failed: {_last_line(error)}"


def _last_line(error: Exception) -> str:
    """The last line of OpenVINO's message, which says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
