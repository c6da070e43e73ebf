"""Plans are built for real, by the library that needs no GPU for it."""

import ast
import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import EngineError, ModelError
from edgepipe.models import zoo
from edgepipe.models.shape_profile import ShapeProfile
from edgepipe.models.tensorrt import api
from edgepipe.models.tensorrt.api import ENUMS, TensorRt
from edgepipe.models.tensorrt.build import BuildOptions, build_plan, wanted
from edgepipe.models.tensorrt.host import Gpu, gpu
from edgepipe.models.tensorrt.library import RTX, import_tensorrt, require_version
from edgepipe.models.tensorrt.plan import judge

MakeModel = Callable[..., Path]

TARGETS = ("80", "86", "89", "120")
SHIPPED = [
    file
    for name in zoo.names()
    for file in sorted(zoo.card_path(name).parent.glob("*.onnx"))
]
ORIN = Gpu("Orin", "87", "12.6")


def profile(name: str, height: int = 320, width: int = 416) -> ShapeProfile:
    one = (1, 3, height, width)
    return ShapeProfile(name, one, one, (1, *one[1:]))


@pytest.mark.parametrize("model", SHIPPED, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_model_that_ships_becomes_a_plan(rtx: TensorRt, model: Path) -> None:
    free = () if "tiny" in str(model) else (profile("images"),)
    options = BuildOptions(RTX, profiles=free, targets=TARGETS)
    plan, facts = build_plan(rtx, model, options, None)
    assert len(plan) > 100_000
    assert facts.sm == TARGETS
    assert facts.precision is not None
    assert facts.precision.startswith(model.stem)
    assert judge(facts, wanted(rtx, model, options, Gpu("RTX", "86", "13.0"))).load
    assert not judge(facts, wanted(rtx, model, options, ORIN)).load


def test_unsigned_activations_are_refused_with_the_reason(
    rtx: TensorRt, tmp_path: Path
) -> None:
    shape = [1, 3, 64, 96]
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(0, np.uint8), "zero")
    nodes = [
        helper.make_node("QuantizeLinear", ["images", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["out"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("images", "out")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [scale, zero])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "unsigned.onnx"
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"takes signed INT8 .* uint8"):
        build_plan(rtx, path, BuildOptions(RTX, targets=("86",)), None)


def test_a_batch_may_be_free_within_its_profile(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    model = make_model(shape=("n", 3, 64, 96), operator="Relu")
    batch = ShapeProfile("images", (1, 3, 64, 96), (2, 3, 64, 96), (4, 3, 64, 96))
    options = BuildOptions(RTX, profiles=(batch,), targets=("86",))
    _, facts = build_plan(rtx, model, options, None)
    assert facts.input == {"images": ["n", 3, 64, 96]}
    with pytest.raises(
        ModelError, match=r"'images' nx3x64x96: dimension 0; say the least"
    ):
        build_plan(rtx, model, BuildOptions(RTX, targets=("86",)), None)


def test_an_operator_that_it_does_not_know_is_named_with_its_node(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    model = make_model(operator="NoSuchThing")
    with pytest.raises(
        ModelError, match=r"cannot read .*node 0 .*NoSuchThing"
    ) as caught:
        build_plan(rtx, model, BuildOptions(RTX, targets=("86",)), None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "here", "said"),
    [
        (BuildOptions(RTX), None, "there is no GPU here"),
        (BuildOptions(RTX, targets=("87",)), None, "no target 87: .* for 75, 80, 86"),
        (BuildOptions(RTX, dla_core=0), ORIN, "knows no DLA"),
        (BuildOptions(RTX, timing_cache=Path("x")), ORIN, "keeps no timing cache"),
        (BuildOptions(targets=("86",)), ORIN, "builds for the GPU that it runs on"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    rtx: TensorRt,
    make_model: MakeModel,
    options: BuildOptions,
    here: Gpu | None,
    said: str,
) -> None:
    with pytest.raises(EngineError, match=said):
        build_plan(rtx, make_model(operator="Relu"), options, here)


def test_an_accelerator_that_there_is_not_is_refused(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    options = BuildOptions(dla_core=0)
    with pytest.raises(EngineError, match=r"no DLA core 0: this machine has 0"):
        build_plan(rtx, make_model(operator="Relu"), options, ORIN)


# --- the accelerator, whose library runs on boards only -------------------------------


class Pretender:
    """Hands on to the real library, and does for it what only TensorRT on a board can:
    the accelerator and the timing cache."""

    def __init__(self, rtx: TensorRt, log: list[str], can: bool) -> None:
        self._rtx, self._log, self._can = rtx, log, can

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rtx, name)

    def Builder(self, logger: Any) -> Any:  # noqa: N802
        real = self._rtx.Builder(logger)

        def build(network: Any, config: Any) -> bytes:
            del network, config
            for line in self._log:
                logger.log(self._rtx.ILogger.Severity.WARNING, line)
            return b"plan"

        return SimpleNamespace(
            num_DLA_cores=2,
            create_network=real.create_network,
            create_builder_config=lambda: Configured(self._can),
            build_serialized_network=build,
            kept_alive=real,
        )


class Configured:
    """A builder's configuration."""

    def __init__(self, can: bool) -> None:
        self._can = can
        self._cache = b""

    def set_flag(self, flag: Any) -> None:
        assert flag.name == "GPU_FALLBACK"

    def can_run_on_DLA(self, layer: Any) -> bool:  # noqa: N802
        del layer
        return self._can

    def create_timing_cache(self, data: bytes) -> bytes:
        return data

    def set_timing_cache(self, cache: bytes, *, ignore_mismatch: bool) -> None:
        assert not ignore_mismatch
        self._cache = cache

    def get_timing_cache(self) -> Any:
        return SimpleNamespace(serialize=lambda: self._cache + b"times")


MOVED = "Layer 'head/div' (ELEMENTWISE): Unsupported on DLA. Switching this layer's \
device type to GPU."


def build_on_dla(
    rtx: TensorRt, model: Path, *, allowed: bool, can: bool = True
) -> tuple[Any, list[str]]:
    said: list[str] = []
    options = BuildOptions(dla_core=1, allow_gpu_fallback=allowed)
    pretender: Any = Pretender(rtx, [MOVED], can)
    _, facts = build_plan(pretender, model, options, ORIN, said.append)
    return facts, said


def test_layers_that_the_accelerator_left_stand_in_the_plans_record(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    facts, said = build_on_dla(rtx, make_model(operator="Relu"), allowed=True)
    assert facts.dla.moved_to_gpu == ("head/div",)
    assert facts.dla.label() != "DLA"
    assert MOVED in said


def test_a_forbidden_fall_back_fails_the_build(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    model = make_model(operator="Relu")
    with pytest.raises(EngineError, match=r"1 layers cannot run .*'head/div'"):
        build_on_dla(rtx, model, allowed=False)
    with pytest.raises(EngineError, match=r"3 layers cannot run on the DLA"):
        build_on_dla(rtx, model, allowed=False, can=False)


def test_nothing_is_collected_while_the_library_calls(
    rtx: TensorRt, make_model: MakeModel
) -> None:
    """A builder that is freed inside of a message deadlocks with TensorRT's lock."""
    collects: list[bool] = []
    pretender: Any = Pretender(rtx, ["a warning"], True)
    options = BuildOptions()

    def say(line: str) -> None:
        assert line == "a warning"
        collects.append(gc.isenabled())

    build_plan(pretender, make_model(operator="Relu"), options, ORIN, say)
    assert collects == [False]
    assert gc.isenabled()


def test_the_timing_cache_of_one_build_is_given_to_the_next(
    rtx: TensorRt, make_model: MakeModel, tmp_path: Path
) -> None:
    cache = tmp_path / "times"
    options = BuildOptions(timing_cache=cache)
    pretender: Any = Pretender(rtx, [], True)
    for builds in (1, 2):
        build_plan(pretender, make_model(operator="Relu"), options, ORIN)
        assert cache.read_bytes() == b"times" * builds


# --- releases -------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["8.6.1", "9.3.0", "7.1", "odd"])
def test_releases_before_ten_are_refused(version: str) -> None:
    with pytest.raises(
        EngineError, match=f"TensorRT {version} is too old: .* 10 or newer"
    ):
        require_version("tensorrt", version)


@pytest.mark.parametrize("version", ["10.3.0", "11.4.0.106"])
def test_later_ones_are_taken(version: str) -> None:
    require_version("tensorrt", version)


def test_what_is_not_installed_is_said_with_the_remedy() -> None:
    with pytest.raises(EngineError, match=r"only its types: JetPack brings it"):
        require_version("tensorrt", None)
    with pytest.raises(EngineError, match=r"tensorrt"):
        import_tensorrt("tensorrt")


def used_names() -> set[str]:
    """Every name of the library that edgepipe uses."""
    tree = ast.parse(Path(str(api.__file__)).read_text())
    names = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
    }
    fields = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id not in ("ENUMS", "__version__")
    }
    return names | fields | {value for values in ENUMS.values() for value in values}


def test_the_names_that_are_used_are_worth_checking() -> None:
    assert len(used_names()) > 35


@pytest.mark.parametrize("release", ["10", "11"])
def test_every_name_that_is_used_is_in_the_bindings_of_each_release(
    wheels: Path, release: str
) -> None:
    """They load nowhere without their gigabytes: their text is searched instead."""
    found = sorted((wheels / release).glob("tensorrt_bindings/tensorrt.so"))
    if not found:
        pytest.skip("make tensorrt has not brought it")
    text = found[0].read_bytes()
    missing = [name for name in used_names() if name.encode() not in text]
    assert missing == []


@pytest.mark.slow
def test_what_is_used_has_the_types_that_are_published_for_release_ten(
    wheels: Path, root: Path, tmp_path: Path
) -> None:
    types = wheels / "types"
    if not types.exists():
        pytest.skip("make tensorrt has not brought them")
    # What is checked must lie beside the checker's configuration.
    shutil.copy(Path(__file__).with_name("published_types.py"), tmp_path)
    config = {
        "extraPaths": [str(types), str(root / "src")],
        "typeCheckingMode": "strict",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    checked = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--outputjson"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["summary"]["filesAnalyzed"] == 1


def test_rtx_has_every_value_that_is_used(rtx: TensorRt) -> None:
    for enumeration, values in ENUMS.items():
        for value in values:
            assert hasattr(getattr(rtx, enumeration), value)


def test_a_machine_without_a_driver_says_so() -> None:
    assert gpu("libno-such-driver.so") == "no NVIDIA driver is installed"


def test_a_record_is_json(rtx: TensorRt, make_model: MakeModel) -> None:
    from edgepipe.models.tensorrt.plan import record

    options = BuildOptions(RTX, targets=("86",))
    _, facts = build_plan(rtx, make_model(operator="Relu"), options, None)
    assert json.loads(json.dumps(record(facts)))["library"] == RTX
