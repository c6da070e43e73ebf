"""Running the FP32 network on images and watching how large its values are."""

import copy
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.card import InputType, Layout, ModelCard
from edgepipe.models.quantise.histogram import Histogram
from edgepipe.models.quantise.onnx_library import import_onnx

onnx: Any = import_onnx()


class Observer:
    """Collects a histogram of each tensor of interest, image by image.

    Args:
        model: A prepared network.
        tensors: Names of the tensors to look at.
        card: How an image becomes the network's input.

    Raises:
        ModelError: onnxruntime cannot run the network.
    """

    def __init__(self, model: Any, tensors: Collection[str], card: ModelCard) -> None:
        self._card = card
        self._tensors = sorted(set(tensors))
        self.histograms = {name: Histogram() for name in self._tensors}
        self._session = _session(model, self._tensors, card)
        self._computed = [name for name in self._tensors if name != card.input_name]

    def look(self, image: NDArray[np.uint8]) -> None:
        """Run one (height, width, 3) image in network colour order and count.

        Raises:
            ModelError: The network puts out NaN or infinity, or cannot run.
        """
        given = network_input(self._card, image)
        seen = {self._card.input_name: given} | self._compute(given)
        for name, histogram in self.histograms.items():
            _count(histogram, name, seen[name])

    def _compute(self, given: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """The tensors of interest but for the input itself."""
        if not self._computed:
            return {}
        try:
            values = self._session.run(self._computed, {self._card.input_name: given})
        except Exception as error:  # onnxruntime's errors have no common base
            raise ModelError(
                f"model {self._card.name!r} cannot run for calibration:"
                f" {one_line(error)}"
            ) from error
        return dict(zip(self._computed, values, strict=True))

    def restore(self, histograms: Mapping[str, Histogram]) -> None:
        """Go on from what was counted before.

        Raises:
            ValueError: These are other tensors.
        """
        if set(histograms) != set(self._tensors):
            raise ValueError("histograms of other tensors")
        self.histograms = dict(histograms)


def _count(histogram: Histogram, name: str, values: NDArray[np.float32]) -> None:
    try:
        histogram.add(values)
    except ValueError as error:
        raise ModelError(f"calibration: tensor {name!r} has {error}") from error


def network_input(card: ModelCard, image: NDArray[np.uint8]) -> NDArray[Any]:
    """What an engine makes of an image: the network's own input, a batch of one.

    Shape and type are those of the card's ``input_shape`` and ``input_type``.
    """
    pixels = image if card.layout is Layout.NHWC else np.moveaxis(image, 2, 0)
    if card.input_type is InputType.UINT8:
        return np.ascontiguousarray(pixels[np.newaxis])
    channels = (3,) if card.layout is Layout.NHWC else (3, 1, 1)
    mean, std = (
        np.array(x, np.float32).reshape(channels) for x in (card.mean, card.std)
    )
    values = (pixels.astype(np.float32) - mean) / std
    return np.ascontiguousarray(values[np.newaxis])


def one_line(error: Exception) -> str:
    """What a library says in several lines."""
    return " ".join(str(error).split()) or type(error).__name__


def _session(model: Any, tensors: list[str], card: ModelCard) -> Any:
    """The network with the tensors as further outputs."""
    ort: Any = import_module("onnxruntime")
    watched = copy.deepcopy(model)
    there = {output.name for output in watched.graph.output}
    for name in tensors:
        if name != card.input_name and name not in there:
            watched.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # Fused nodes would swallow the tensors; the numbers are the same in FP32.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    try:
        return ort.InferenceSession(
            watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors have no common base
        raise ModelError(
            f"model {card.name!r} cannot be run for calibration: {one_line(error)}"
        ) from error
