"""How much arithmetic a network does for one image, counted in its file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard

if TYPE_CHECKING:
    from edgepipe.models.inspect.graph import Graph


@dataclass(frozen=True, slots=True)
class Operations:
    """Of one image: two for each multiply-accumulate of a layer, nothing else."""

    int8: int
    """Of layers whose both operands are quantised."""
    rest: int
    uncounted: int
    """Layers whose shape the file does not tell; with any, the others are a least."""

    @property
    def total(self) -> int:
        """All that were counted."""
        return self.int8 + self.rest


def operations_of(path: Path, card: ModelCard) -> Operations | str:
    """Count the operations of a file at the card's size; or why that is not possible.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        from onnx import shape_inference

        from edgepipe.models.inspect import reading
        from edgepipe.models.inspect.apart import work_apart
    except ImportError as error:
        return f"this needs onnx ({error}): pip install 'edgepipe[models]'"
    model = reading.with_input_shape(
        reading.read(path), card.input_name, card.input_shape()
    )
    try:
        model = shape_inference.infer_shapes(model, data_prop=True)
    except shape_inference.InferenceError as error:
        raise ModelError(
            f"{path}: its shapes contradict each other: {error}"
        ) from error
    found = _counted(reading.graph_of(model))
    if not found.uncounted:
        return found
    # Exporters leave arithmetic on shapes in the graph, which has to be computed first.
    results = work_apart(model.SerializeToString(), path.resolve().parent, None)
    if results.simplified is None:
        return found
    return _counted(reading.graph_of_bytes(results.simplified))


def _counted(graph: "Graph") -> Operations:
    from edgepipe.models.inspect.counting import is_layer, macs_of

    int8 = rest = uncounted = 0
    for node in filter(is_layer, graph.nodes):
        macs = macs_of(graph, node)
        makers = [graph.producer.get(name) for name in node.inputs[:2]]
        if macs is None:
            uncounted += 1
        elif all(maker and maker.op == "DequantizeLinear" for maker in makers):
            int8 += 2 * macs
        else:
            rest += 2 * macs
    return Operations(int8, rest, uncounted)
