"""Sums of INT8 products that 16 bits cannot hold."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import AsyncEngine
from edgepipe.models.load import LOADERS
from edgepipe.models.quantise.placement import layers_of
from edgepipe.models.quantise.prepare import prepare
from edgepipe.models.quantise.write import write_int8
from edgepipe.models.saturation import (
    SEVEN_BITS,
    exact_sum,
    pairwise_sum,
    saturates,
    wide_layers,
)

bytes_ = st.integers(0, 255)
PROGRAM = """
from edgepipe.models.load import LOADERS
from edgepipe.models.saturation import saturates
print(saturates(lambda card, file: LOADERS["openvino"](card, file, 1, 1, "a test", 1)))
"""


def test_the_recorded_product_is_exact_in_32_bits_and_cut_in_16(cases: Path) -> None:
    dot = json.loads((cases / "C20" / "dot.json").read_text())
    expected = json.loads((cases / "C20" / "expected.json").read_text())
    unsigned, signed = np.array(dot["u8"], np.uint8), np.array(dot["s8"], np.int8)
    assert exact_sum(unsigned, signed) == expected["exact_int32"]
    assert pairwise_sum(unsigned, signed) == expected["pairwise_int16_saturated"]


@given(st.lists(st.tuples(bytes_, st.integers(-SEVEN_BITS, SEVEN_BITS)), min_size=1))
def test_with_weights_of_seven_bits_nothing_is_ever_cut(
    pairs: list[tuple[int, int]],
) -> None:
    unsigned = np.array([u for u, _ in pairs], np.uint8)
    signed = np.array([s for _, s in pairs], np.int8)
    assert pairwise_sum(unsigned, signed) == exact_sum(unsigned, signed)


def test_with_eight_bits_something_may_be() -> None:
    unsigned, signed = np.full(2, 255, np.uint8), np.full(2, 127, np.int8)
    assert exact_sum(unsigned, signed) == 64770
    assert pairwise_sum(unsigned, signed) == 32767


@pytest.mark.skipif(
    platform.machine() != "x86_64"
    or "avx512_vnni" not in Path("/proc/cpuinfo").read_text(),
    reason="which kernels there are is known of processors with AVX-512 VNNI only",
)
@pytest.mark.parametrize(
    ("isa", "cut"), [("AVX2", "True"), ("AVX512_CORE", "True"), ("ALL", "False")]
)
def test_a_product_tells_what_the_kernels_of_a_processor_do(isa: str, cut: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.strip() == cut


def test_onnxruntime_is_asked_the_same_way() -> None:
    def load(card: ModelCard, file: ModelFile) -> AsyncEngine:
        return LOADERS["onnxruntime"](card, file, 1, 1, "a test", 1)

    assert saturates(load) in (True, False)


@pytest.mark.parametrize("bits", [7, 8])
def test_files_with_weights_of_eight_bits_are_told_from_those_with_seven(
    scene_tiny: ModelCard, tmp_path: Path, bits: int
) -> None:
    network = prepare(next(f.path for f in scene_tiny.files if f.precision == "fp32"))
    layers = layers_of(network)
    ranges = {layer.reads: 1.0 for layer in layers}
    path = tmp_path / "int8.onnx"
    written = write_int8(network, layers, ranges, weight_bits=bits)
    path.write_bytes(written.SerializeToString())
    assert len(wide_layers(path)) == (0 if bits == 7 else 11)


def test_what_ships_is_right_on_processors_that_cut_sums(
    nanodet: ModelCard, scene_tiny: ModelCard
) -> None:
    for card in (nanodet, scene_tiny):
        file = next(each for each in card.files if each.precision == "int8")
        assert wide_layers(file.path) == ()
