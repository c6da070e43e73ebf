"""What an ONNX file says of itself, read from its bytes: no library is needed."""

from collections.abc import Iterator
from pathlib import Path

from edgepipe.errors import ModelError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

# Numbers of fields in onnx.proto.
_MODEL_GRAPH, _MODEL_FUNCTION = 7, 25
_GRAPH_NODE, _GRAPH_TENSOR, _FUNCTION_NODE = 1, 5, 7
_NODE_OPERATOR, _NODE_ATTRIBUTE = 4, 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 5, 6, 11
_TENSOR_ELSEWHERE = 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


def quantised_operators(path: Path) -> int:
    """How many operators compute in, or convert to and from, whole numbers.

    0 for what is no ONNX file: whoever loads it says so.

    Raises:
        ModelError: It cannot be read.
    """
    return sum(_quantises(name) for name in _operators(_read(path)))


def external_files(path: Path) -> tuple[str, ...]:
    """The other files that hold some of its weights, as the file names them.

    Raises:
        ModelError: It cannot be read.
    """
    found: dict[str, None] = {}
    for tensor in _tensors(_read(path)):
        for entry in _parts(tensor, _TENSOR_ELSEWHERE):
            key = b"".join(_parts(entry, _ENTRY_KEY))
            value = b"".join(_parts(entry, _ENTRY_VALUE))
            if key == b"location":
                found[value.decode("utf-8", "backslashreplace")] = None
    return tuple(found)


def _quantises(operator: str) -> bool:
    return (
        operator in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
        or operator.startswith(("QLinear", "QGemm", "QAttention", "QMoE"))
        or operator.endswith(("Integer", "IntegerToFloat", "NBits"))
    )


def _operators(model: memoryview) -> Iterator[str]:
    for node in _nodes(model):
        for name in _parts(node, _NODE_OPERATOR):
            yield bytes(name).decode("utf-8", "backslashreplace")


def _tensors(model: memoryview) -> Iterator[memoryview]:
    for graph in _graphs(model):
        yield from _parts(graph, _GRAPH_TENSOR)
    for node in _nodes(model):
        for attribute in _parts(node, _NODE_ATTRIBUTE):
            yield from _parts(attribute, _ATTRIBUTE_TENSOR)


def _graphs(model: memoryview) -> Iterator[memoryview]:
    """The graph, and those inside of branches and loops."""
    waiting = list(_parts(model, _MODEL_GRAPH))
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in _parts(graph, _GRAPH_NODE):
            for attribute in _parts(node, _NODE_ATTRIBUTE):
                waiting += _parts(attribute, _ATTRIBUTE_GRAPH)
                waiting += _parts(attribute, _ATTRIBUTE_GRAPHS)


def _nodes(model: memoryview) -> Iterator[memoryview]:
    for graph in _graphs(model):
        yield from _parts(graph, _GRAPH_NODE)
    for function in _parts(model, _MODEL_FUNCTION):
        yield from _parts(function, _FUNCTION_NODE)


def _parts(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """The values of one field of a message; they end where the message is damaged."""
    position = 0
    while position < len(message):
        field, begin, position = _field(message, position)
        if field == wanted:
            yield message[begin:position]


def _field(message: memoryview, position: int) -> tuple[int, int, int]:
    """Number of the field at a position, and where its value begins and ends.

    The number is 0 for what holds no bytes, and for all the rest where the message is
    damaged.
    """
    end = len(message)
    try:
        key, begin = varint(message, position)
        if key & 7 == _VARINT:
            return 0, begin, varint(message, begin)[1]
        if key & 7 != _BYTES:
            return 0, begin, begin + _FIXED_BYTES[key & 7]
        length, begin = varint(message, begin)
    except (IndexError, KeyError):
        return 0, end, end
    if begin + length > end:
        return 0, end, end
    return key >> 3, begin, begin + length


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """A base-128 number and the position after it.

    Raises:
        IndexError: The data end before it does.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _read(path: Path) -> memoryview:
    try:
        return memoryview(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the model file: {reason}") from error
