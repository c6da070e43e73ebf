"""Gives random convolutions outputs of mean 0 and variance 1, as training would."""

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper


def normalise(model: onnx.ModelProto, images: list[NDArray[np.float32]]) -> None:
    """Rescale every convolution in place, each output channel on its own.

    This is what a batch normalisation folded into the weights amounts to. Without it
    the variance of a deep random network runs away or dies out.

    Args:
        model: A model whose convolutions have a bias.
        images: The inputs that the statistics are taken from.
    """
    convolutions = [
        node
        for node in model.graph.node
        if node.op_type == "Conv" and len(node.input) == 3
    ]
    parameters = {name for node in convolutions for name in node.input[1:]}
    values = {
        item.name: numpy_helper.to_array(item).copy()
        for item in model.graph.initializer
        if item.name in parameters
    }
    session = _session(model, [node.output[0] for node in convolutions], parameters)
    source = model.graph.input[0].name
    for node in convolutions:
        output = np.concatenate(
            [session.run([node.output[0]], {source: x, **values})[0] for x in images]
        )
        mean, spread = output.mean(axis=(0, 2, 3)), output.std(axis=(0, 2, 3)) + 1e-6
        factor = (1 / spread).astype(np.float32)
        weight, bias = node.input[1:]
        values[weight] *= factor[:, None, None, None]
        values[bias] = (values[bias] - mean) * factor
    for item in model.graph.initializer:
        if item.name in parameters:
            item.CopyFrom(numpy_helper.from_array(values[item.name], item.name))


def _session(
    model: onnx.ModelProto, outputs: list[str], parameters: set[str]
) -> ort.InferenceSession:
    """A session that shows every output and takes the parameters as inputs."""
    open_model = onnx.ModelProto()
    open_model.CopyFrom(model)
    kind = onnx.TensorProto.FLOAT
    open_model.graph.output.extend(
        helper.make_tensor_value_info(name, kind, None) for name in outputs
    )
    open_model.graph.input.extend(
        helper.make_tensor_value_info(item.name, kind, item.dims)
        for item in model.graph.initializer
        if item.name in parameters
    )
    options = ort.SessionOptions()
    options.log_severity_level = 3  # it warns of every parameter that is an input
    return ort.InferenceSession(
        open_model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
