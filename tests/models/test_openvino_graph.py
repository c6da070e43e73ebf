"""Signed activations where two branches meet, on processors of several kinds."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.load import load_engine
from edgepipe.models.openvino_graph import join_signed_pairs
from edgepipe.models.openvino_library import import_openvino
from edgepipe.models.self_check import probe_image

ov = import_openvino()

Numbers = NDArray[np.generic]

ISAS = ("AVX2", "AVX2_VNNI", "")
"""What OpenVINO's kernels may use; the last is all that there is. A processor that
lacks one, or is no x86, uses what it has."""
KINDS: dict[str, tuple[type[np.signedinteger[Any] | np.unsignedinteger[Any]], int]] = {
    "signed": (np.int8, 0),
    "signed, zero at 5": (np.int8, 5),
    "unsigned": (np.uint8, 128),
}
"""Type and zero point of the activations."""
CHANNELS = 4
SCALES = (0.02, 0.024)
"""One step of the quantised input, and of what the branches are joined in."""
STEP = SCALES[1]

COMPUTE = """
import sys
from pathlib import Path
import numpy as np
from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.load import load_engine
from edgepipe.models.openvino_engine import ov
from edgepipe.models.openvino_graph import join_signed_pairs
from edgepipe.models.self_check import probe_image

folder, found = Path(sys.argv[1]), {}
for path in folder.glob("*.onnx"):
    model = ov.Core().read_model(path)
    join_signed_pairs(model)
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(model, "CPU", hint)
    found[path.stem] = compiled(np.load(folder / "input.npy"))[0]
for name in zoo.names():
    card, _ = read_card(zoo.card_path(name))
    engine = load_engine(card, "int8", "openvino", requests=1, threads=1)
    outputs = engine.infer(probe_image(card.height, card.width))
    found[name] = outputs["scores"].copy()
np.savez(folder / "found.npz", **found)
"""


def pair(name: str, scale: str) -> list[Any]:
    """Quantise and dequantise a tensor; the result's name begins with the scale's."""
    stored, result = f"{scale}_{name}_stored", f"{scale}_{name}"
    return [
        helper.make_node("QuantizeLinear", [name, scale, "zero"], [stored]),
        helper.make_node("DequantizeLinear", [stored, scale, "zero"], [result]),
    ]


def convolution(
    source: str, target: str, channels: int, values: dict[str, Numbers]
) -> list[Any]:
    """A quantised 1x1 convolution that changes nothing."""
    names = [f"{target}_{part}" for part in ("stored", "scale", "zero")]
    identity = 50 * np.eye(channels).astype(np.int8)
    values[names[0]] = identity.reshape(channels, channels, 1, 1)
    values[names[1]] = np.full(channels, 0.02, np.float32)
    values[names[2]] = np.zeros(channels, np.int8)
    weights = f"{target}_weights"
    return [
        helper.make_node("DequantizeLinear", names, [weights], axis=0),
        helper.make_node("Conv", [source, weights], [target], kernel_shape=[1, 1]),
    ]


def save(path: Path, kind: str) -> Path:
    """Write x -> pair -> {convolution, nothing} -> Concat -> pair -> convolution."""
    number, zero = KINDS[kind]
    values: dict[str, Numbers] = {
        "s": np.array(SCALES[0], np.float32),
        "t": np.array(SCALES[1], np.float32),
        "zero": np.array(zero, number),
    }
    nodes = [*pair("x", "s"), *convolution("s_x", "c", CHANNELS, values)]
    nodes.append(helper.make_node("Concat", ["c", "s_x"], ["joined"], axis=1))
    nodes += [*pair("joined", "t")]
    nodes += convolution("t_joined", "y", 2 * CHANNELS, values)
    ends = [("x", CHANNELS), ("y", 2 * CHANNELS)]
    source, target = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, channels, 4, 64))
        for name, channels in ends
    )
    constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "g", [source], [target], constants)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def ramp() -> NDArray[np.float32]:
    values = np.linspace(-3.5, 3.5, 256, dtype=np.float32).reshape(1, 1, 4, 64)
    return np.repeat(values, CHANNELS, axis=1)


@pytest.fixture(scope="module", params=ISAS, ids=lambda isa: isa or "all")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, NDArray[np.float32]]:
    """What each network computes in a process that may use no more than this."""
    folder = tmp_path_factory.mktemp("networks")
    np.save(folder / "input.npy", ramp())
    for kind in KINDS:
        save(folder / f"{kind}.onnx", kind)
    subprocess.run(
        [sys.executable, "-c", COMPUTE, folder],
        check=True,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": request.param},
    )
    return dict(np.load(folder / "found.npz"))


@pytest.mark.parametrize("kind", KINDS)
def test_branches_that_meet_keep_their_values_on_every_processor(
    kind: str, found: dict[str, NDArray[np.float32]]
) -> None:
    number, zero = KINDS[kind]
    low, high = (end - zero for end in (np.iinfo(number).min, np.iinfo(number).max))
    values = ramp().astype(np.float64)
    for scale in SCALES:
        values = np.clip(np.round(values / scale), low, high) * scale
    difference = np.abs(found[kind] - np.concatenate([values, values], axis=1))
    # A value just between two steps may be rounded either way.
    assert difference.max() < 1.01 * STEP
    assert difference.mean() < 0.1 * STEP


@pytest.mark.parametrize("name", zoo.names())
def test_shipped_models_score_like_their_fp32_files_on_every_processor(
    name: str, found: dict[str, NDArray[np.float32]]
) -> None:
    card, _ = read_card(zoo.card_path(name))
    engine = load_engine(card, "fp32", "openvino", requests=1, threads=1)
    truth = engine.infer(probe_image(card.height, card.width))["scores"]
    difference = np.abs(found[name] - truth)
    engine.close()
    assert truth.max() > 0.3
    assert difference.max() < 0.15
    assert difference.mean() < 2e-3


def test_a_signed_pair_becomes_one_node_with_the_same_bounds(tmp_path: Path) -> None:
    model = ov.Core().read_model(save(tmp_path / "signed.onnx", "signed"))
    join_signed_pairs(model)
    nodes = [n for n in model.get_ops() if n.get_type_name() == "FakeQuantize"]
    assert len(nodes) == len(SCALES)
    for node in nodes:
        bounds = [node.input_value(i).get_node().data.item() for i in range(1, 5)]
        assert bounds[2:] == pytest.approx(bounds[:2])
        readers = [port.get_node() for port in node.output(0).get_target_inputs()]
        assert "Convert" not in [reader.get_type_name() for reader in readers]


def test_unsigned_pairs_and_float_networks_stay_as_they_are(tmp_path: Path) -> None:
    float_network = zoo.card_path("nanodet-g").parent / "fp32.onnx"
    for path in (save(tmp_path / "unsigned.onnx", "unsigned"), float_network):
        model = ov.Core().read_model(path)
        before = [node.get_type_name() for node in model.get_ordered_ops()]
        join_signed_pairs(model)
        assert [node.get_type_name() for node in model.get_ordered_ops()] == before
