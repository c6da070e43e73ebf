"""Where the columns of an output come from."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import shape_inference

from edgepipe.models.inspect.columns import Columns, columns_of
from edgepipe.models.inspect.graph import Graph
from edgepipe.models.inspect.reading import graph_of_bytes
from tests.models.inspect.networks import Net

KINDS = ("Sigmoid", "Exp", "Relu", "Tanh")


def graph(net: Net, output: str) -> Graph:
    with TemporaryDirectory() as folder:
        content = net.save(Path(folder) / "m.onnx", [output]).read_bytes()
    model = onnx.load_from_string(content)
    model = shape_inference.infer_shapes(model, data_prop=True)
    return graph_of_bytes(model.SerializeToString())


def kinds(columns: Columns) -> set[str]:
    return {step.op for path in columns.paths for step in path.steps}


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(KINDS)), min_size=1),
    data=st.data(),
)
def test_columns_are_followed_through_cuts_joins_and_turns(
    parts: list[tuple[int, str]], data: st.DataObject
) -> None:
    net = Net(16)
    made = [net.op(kind, net.level("images", 8, count)) for count, kind in parts]
    joined = net.op("Concat", *made, axis=1)
    total = sum(count for count, _ in parts)
    cut = data.draw(st.integers(0, total))
    if 0 < cut < total:
        joined = net.op("Concat", *net.split(joined, [cut, total - cut], 1), axis=1)
    turned = net.shaped(net.op("Transpose", joined, perm=[0, 2, 1]), 1, 2, 2, total)
    found = columns_of(graph(net, turned), turned, 3)
    wanted = list(itertools.chain(*([kind] * count for count, kind in parts)))
    assert [each for c in found for each in kinds(c) for _ in range(c.count)] == wanted
    assert all(path.source == "Conv" for c in found for path in c.paths)


def test_what_columns_are_added_to_is_the_part_that_meets_them() -> None:
    net = Net(16)
    y = net.op("Add", net.level("images", 8, 4), net.f32(np.arange(4).reshape(4, 1)))
    z = net.op("Concat", net.split(y, [1, 3], 1)[1], axis=1)
    (found,) = columns_of(graph(net, z), z, 1)
    (value,) = found.paths[0].values("Add")
    assert value.ravel().tolist() == [1, 2, 3]


def test_an_endless_number_of_ways_ends() -> None:
    net = Net(16)
    y = net.level("images", 8, 4)
    for _ in range(64):
        # Each turn doubles the ways back.
        y = net.op("Add", net.op("Relu", y), net.op("Tanh", y))
    found = columns_of(graph(net, y), y, 1)
    assert {path.source for path in found[0].paths} == {"Conv", "unknown"}


def test_a_long_chain_is_no_deep_recursion() -> None:
    net = Net(16)
    y = net.level("images", 8, 4)
    for _ in range(5000):
        y = net.op("Identity", y)
    (found,) = columns_of(graph(net, y), y, 1)
    assert found.paths[0].source == "Conv"
