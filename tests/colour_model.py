"""A classifier that can be checked by eye: which of three colours an image has most."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

_CARD = """\
name: colour
files: [{{precision: fp32, path: {file}}}]
input: {{name: images, height: 16, width: 24, color: bgr, mean: [0, 0, 0],
  std: [255, 255, 255], align: {align}}}
head: {{kind: {kind}, outputs: [scores]}}
classes: {{names: [{labels}]}}
"""


class ColourModel:
    """Says which channel of an image has the highest mean."""

    labels = ("blue", "green", "red")
    """In the order of BGR."""

    def write(
        self, folder: Path, kind: str = "classifier", align: str = "stretch"
    ) -> Path:
        """An ONNX file with its card beside it; scores are ten times channel means.

        With ``kind`` probabilities the softmax is part of the network.
        """
        path = folder / f"colour-{kind}.onnx"
        shape = (1, 3, 16, 24)
        mean = helper.make_node("GlobalAveragePool", ["images"], ["mean"])
        flat = helper.make_node("Flatten", ["mean"], ["flat"])
        factor = helper.make_tensor("ten", TensorProto.FLOAT, (1,), np.array([10.0]))
        last = "raw" if kind == "probabilities" else "scores"
        nodes = [mean, flat, helper.make_node("Mul", ["flat", "ten"], [last])]
        if kind == "probabilities":
            nodes.append(helper.make_node("Softmax", ["raw"], ["scores"], axis=1))
        graph = helper.make_graph(
            nodes,
            "colour",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 3))],
            [factor],
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        path.write_bytes(model.SerializeToString())
        card = _CARD.format(
            file=path.name, kind=kind, align=align, labels=", ".join(self.labels)
        )
        path.with_suffix(".yaml").write_text(card)
        return path
