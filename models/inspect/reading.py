"""ONNX files: the only place that knows their format.

Nothing of a file is executed here, and no other file that it names is opened.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelFile
from edgepipe.models.inspect.graph import Graph, Header, Node, Shape, TensorInfo
from edgepipe.models.onnx_file import require_model_file

# Protocol buffers bring no types.
DecodeError: type[Exception] = import_module("google.protobuf.message").DecodeError

LARGEST_BYTES = 2**31 - 1
"""What a protocol buffer may be long."""
_LARGEST_CONSTANT = 1 << 22
"""Elements; larger ones are weights, whose values say nothing here."""


def read(path: Path) -> onnx.ModelProto:
    """The file's content.

    Raises:
        ModelError: It is missing, cut short, no ONNX model or too large; or data that
            it keeps in other files is not where it says.
    """
    _require_size(path)
    require_model_file(ModelFile("fp32", path, None))
    try:
        model = onnx.load_from_string(path.read_bytes())
    except (DecodeError, OSError, ValueError) as error:
        raise ModelError(f"{path}: not an ONNX model, or damaged: {error}") from error
    if not model.graph.node:
        raise ModelError(f"{path}: the ONNX model has no operators")
    for place in external_files(model):
        _require_beside(path, place)
    return model


def _require_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the model file: {reason}") from error
    if size > LARGEST_BYTES:
        raise ModelError(
            f"{path}: {size} bytes; an ONNX file is at most {LARGEST_BYTES} long: "
            f"export it with its weights as external data"
        )


def external_files(model: onnx.ModelProto) -> list[str]:
    """The other files that hold some of the weights, as the model names them."""
    found: dict[str, None] = {}
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {
                _text(entry.key): _text(entry.value) for entry in tensor.external_data
            }
            found[entries.get("location", "")] = None
    return list(found)


def _require_beside(path: Path, place: str) -> None:
    inside = Path(place)
    if not place or inside.is_absolute() or ".." in inside.parts:
        raise ModelError(f"{path}: external data at {place!r}, outside its own folder")
    if not (path.parent / inside).is_file():
        raise ModelError(
            f"{path}: keeps weights in {place!r}, which is not there: copy both files "
            f"together"
        )


def header_of(model: onnx.ModelProto) -> Header:
    """What stands around the graph."""
    producer = f"{_text(model.producer_name)} {_text(model.producer_version)}".strip()
    return Header(
        producer=producer or "not stated",
        ir_version=model.ir_version,
        opsets={
            _text(each.domain) or "ai.onnx": each.version for each in model.opset_import
        },
        functions=frozenset(
            f"{_text(each.domain)}:{_text(each.name)}" for each in model.functions
        ),
        external=tuple(external_files(model)),
        metadata={_text(each.key): _text(each.value) for each in model.metadata_props},
        newest_opset=int(onnx.defs.onnx_opset_version()),
    )


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from model.graph.initializer
    for node in model.graph.node:
        yield from (each.t for each in node.attribute if each.HasField("t"))


def with_input_shape(
    model: onnx.ModelProto, name: str, shape: Sequence[int]
) -> onnx.ModelProto:
    """A copy in which an input has this shape and no other shape is said."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for output in copy.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for each in copy.graph.input:
        if _text(each.name) == name:
            sizes = each.type.tensor_type.shape
            sizes.ClearField("dim")
            for size in shape:
                sizes.dim.add().dim_value = size
    return copy


def graph_of_bytes(content: bytes) -> Graph:
    """The graph of a model that is at hand as the bytes of a file."""
    return graph_of(onnx.load_from_string(content))


def graph_of(model: onnx.ModelProto) -> Graph:
    """The model's graph as plain data, with the shapes that it says."""
    given = model.graph
    stored = {_text(tensor.name): tuple(tensor.dims) for tensor in given.initializer}
    for sparse in given.sparse_initializer:
        stored[_text(sparse.values.name)] = tuple(sparse.dims)
    nodes = tuple(_nodes(given.node))
    found = _declared(model)
    inner = [_nodes(function.node) for function in model.functions]
    inner += [_nodes(sub.node) for sub in _subgraphs(given.node)]
    return Graph(
        nodes=nodes,
        inputs=tuple(
            _info(each) for each in given.input if _text(each.name) not in stored
        ),
        outputs=tuple(_info(each) for each in given.output),
        constants=dict(_values(given.initializer)),
        stored=stored,
        shapes={k: _known(v.shape) for k, v in found.items() if v.shape is not None},
        dtypes={name: info.dtype for name, info in found.items()},
        inner=tuple(node for part in inner for node in part),
    )


def _nodes(given: Iterable[onnx.NodeProto]) -> Iterator[Node]:
    for node in given:
        attributes = {_text(each.name): _value(each) for each in node.attribute}
        yield Node(
            op=_text(node.op_type),
            domain="" if node.domain == "ai.onnx" else _text(node.domain),
            name=_text(node.name),
            inputs=tuple(map(_text, node.input)),
            outputs=tuple(map(_text, node.output)),
            attributes={k: v for k, v in attributes.items() if v is not None},
        )


def _value(attribute: onnx.AttributeProto) -> Any:
    """An attribute as a number, a text, a list or an array; None for a subgraph."""
    kinds = onnx.AttributeProto
    if attribute.type == kinds.TENSOR:
        return _array(attribute.t)
    if attribute.type in (kinds.FLOAT, kinds.INT, kinds.FLOATS, kinds.INTS):
        value = helper.get_attribute_value(attribute)
        return list(value) if attribute.type in (kinds.FLOATS, kinds.INTS) else value
    if attribute.type == kinds.STRING:
        return attribute.s.decode("utf-8", "replace")
    return None


def _subgraphs(given: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Bodies of branches and loops, those inside of them included."""
    waiting = list(given)
    while waiting:
        for attribute in waiting.pop().attribute:
            for graph in (attribute.g, *attribute.graphs):
                if graph.node:
                    yield graph
                    waiting.extend(graph.node)


def _values(
    given: Iterable[onnx.TensorProto],
) -> Iterator[tuple[str, NDArray[Any]]]:
    for tensor in given:
        array = _array(tensor)
        if array is not None:
            yield _text(tensor.name), array


def _array(tensor: onnx.TensorProto) -> NDArray[Any] | None:
    """A tensor's values; None where it is large, elsewhere or not what it says."""
    sizes = list(tensor.dims)
    if any(size < 0 for size in sizes) or math.prod(sizes) > _LARGEST_CONSTANT:
        return None
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (TypeError, ValueError, KeyError):
        return None


def _text(value: Any) -> str:
    """A text of the file; where it is none, the library gives its bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _info(given: onnx.ValueInfoProto) -> TensorInfo:
    if not given.type.HasField("tensor_type"):
        return TensorInfo(_text(given.name), "not a tensor", None)
    tensor = given.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(_size(each) for each in tensor.shape.dim)
    return TensorInfo(_text(given.name), _dtype(tensor.elem_type), shape)


def _size(given: Any) -> int | str | None:
    if given.HasField("dim_value"):
        return int(given.dim_value)
    return _text(given.dim_param) or None


def _dtype(code: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError, TypeError):
        return f"type {code}"


def _declared(model: onnx.ModelProto) -> dict[str, TensorInfo]:
    """Tensors by name, as far as the file says what they are."""
    graph = model.graph
    every = (*graph.input, *graph.value_info, *graph.output)
    return {_text(each.name): _info(each) for each in every}


def _known(shape: tuple[int | str | None, ...]) -> Shape:
    return tuple(size if isinstance(size, int) else None for size in shape)
