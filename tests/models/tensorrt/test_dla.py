"""What a build log says of layers that the accelerator did not take."""

import json
from pathlib import Path

import pytest

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.dla import placement

NEW = """\
[11/02/2026-10:11:12] [W] [TRT] Layer 'a (b)/gather' (GATHER): Unsupported on DLA. \
Switching this layer's device type to GPU.
[11/02/2026-10:11:12] [W] [TRT] b/div: DLA cores do not support DIV ElementWise \
operation.
[11/02/2026-10:11:12] [W] [TRT] Layer 'b/div' (ELEMENTWISE): Unsupported on DLA. \
Switching this layer's device type to GPU.
[11/02/2026-10:11:12] [W] [TRT] Layer 'b/div' (ELEMENTWISE): Unsupported on DLA. \
Switching this layer's device type to GPU.
[11/02/2026-10:11:12] [I] [TRT] [DlaLayer] {ForeignNode[stem...neck]}
[11/02/2026-10:11:12] [I] [TRT] [GpuLayer] SHUFFLE: never meant for it
"""
OLD = """\
[W] [TRT] Default DLA is enabled but layer (Unnamed Layer* 0) [Constant] is not \
supported on DLA, falling back to GPU.
[W] [TRT] Validation failed for DLA layer: conv_7. Switching to GPU fallback.
"""
LISTS = """\
[I] ---------- Layers Running on DLA ----------
[I] [DlaLayer] {ForeignNode[stem]}
[I] ---------- Layers Running on GPU ----------
[I] [GpuLayer] Reformatting CopyNode for Input Tensor 0
[I] [GpuLayer] SHUFFLE: head/reshape
"""


@pytest.mark.parametrize(
    ("log", "names"),
    [
        (NEW, ("a (b)/gather", "b/div")),
        (OLD, ("(Unnamed Layer* 0) [Constant]", "conv_7")),
        (LISTS, ("head/reshape",)),
        ("[I] [DlaLayer] {ForeignNode[all]}", ()),
        ("[I] [GpuLayer] CONVOLUTION: no accelerator was asked for", ()),
        ("", ()),
    ],
)
def test_layers_on_the_gpu_are_named_in_logs_of_all_ages(
    log: str, names: tuple[str, ...]
) -> None:
    assert placement(log.splitlines()).moved_to_gpu == names


def test_a_forbidden_fall_back_lists_the_layers_with_reasons() -> None:
    placed = placement(NEW.splitlines())
    placed.require(fallback_allowed=True)
    with pytest.raises(EngineError) as caught:
        placed.require(fallback_allowed=False)
    assert str(caught.value) == (
        "2 layers cannot run on the DLA and the GPU is forbidden to them: "
        "'a (b)/gather', 'b/div' (DLA cores do not support DIV ElementWise operation); "
        "allow the fall-back or change the layers"
    )


def test_only_a_network_that_is_all_on_the_accelerator_is_called_dla() -> None:
    whole = placement(["[I] [DlaLayer] {ForeignNode[all]}"])
    whole.require(fallback_allowed=False)
    assert whole.label() == "DLA"
    part = placement(NEW.splitlines())
    assert part.label() == "DLA and GPU (2 layers moved to the GPU)"
    assert part.on_dla == ("{ForeignNode[stem...neck]}",)


def test_the_layers_of_a_recorded_build_are_counted_and_named(cases: Path) -> None:
    folder = cases / "C23"
    expected = json.loads((folder / "expected.json").read_text())
    placed = placement((folder / "build.log").read_text().splitlines())
    assert list(placed.moved_to_gpu) == expected["names"]
    assert len(placed.moved_to_gpu) == expected["layers_moved_to_gpu"]
    with pytest.raises(EngineError, match=r"head/gather.*head/div.*head/reshape"):
        placed.require(fallback_allowed=False)
