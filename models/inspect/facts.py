"""What a model file is, as far as it can be read off without running it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgepipe.models.inspect.counting import Work, work_of
from edgepipe.models.inspect.graph import Graph, Header, Node, TensorInfo

STANDARD_DOMAINS = ("", "ai.onnx.ml")
"""Operators of these are everybody's."""
ONNXRUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc")
PLUGINS = ("EfficientNMS_TRT", "BatchedNMS_TRT", "BatchedNMSDynamic_TRT", "YoloLayer")
"""Known names of operators that TensorRT alone brings."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one file."""

    path: Path
    size_bytes: int
    header: Header
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    operators: Mapping[str, int]
    """How many of each, the most frequent first; those of other domains with it."""
    work: Work
    quantised: str | None
    """How it is quantised, None if it is not."""
    foreign: tuple[str, ...]
    """Operators that onnxruntime and OpenVINO do not bring."""


def _known_as(node: Node) -> str:
    return f"{node.domain}:{node.op}" if node.domain else node.op


def operators_of(graph: Graph, header: Header) -> dict[str, int]:
    """How many of each operator there are; those that are not ONNX's with a domain."""
    names = map(_known_as, (*graph.nodes, *graph.inner))
    counts = Counter(name for name in names if name not in header.functions)
    return dict(counts.most_common())


def foreign_of(graph: Graph, header: Header) -> tuple[str, ...]:
    """Operators that the engines here do not bring."""
    known = (*STANDARD_DOMAINS, *ONNXRUNTIME_DOMAINS)
    found = {
        _known_as(node)
        for node in (*graph.nodes, *graph.inner)
        if node.op in PLUGINS
        or (node.domain not in known and _known_as(node) not in header.functions)
    }
    return tuple(sorted(found))


def quantised_of(graph: Graph) -> str | None:
    """How the network is quantised: by pairs of operators, by integer ones, or not."""
    counts = Counter(node.op for node in graph.nodes)
    if pairs := counts["QuantizeLinear"]:
        return f"QDQ, {pairs} QuantizeLinear, {_signs(graph)} activations"
    integers = sum(n for op, n in counts.items() if op.startswith(("QLinear", "QGemm")))
    integers += counts["ConvInteger"] + counts["MatMulInteger"]
    return f"{integers} integer operators (QOperator form)" if integers else None


def _signs(graph: Graph) -> str:
    kinds: set[str] = set()
    for node in graph.nodes:
        if node.op == "QuantizeLinear":
            zero = graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
            signed = zero is not None and zero.dtype.kind == "i"
            kinds.add("signed" if signed else "unsigned")
    return " and ".join(sorted(kinds))


def facts_of(path: Path, graph: Graph, header: Header) -> Facts:
    """Everything together."""
    return Facts(
        path=path,
        size_bytes=path.stat().st_size,
        header=header,
        inputs=graph.inputs,
        outputs=graph.outputs,
        operators=operators_of(graph, header),
        work=work_of(graph),
        quantised=quantised_of(graph),
        foreign=foreign_of(graph, header),
    )
