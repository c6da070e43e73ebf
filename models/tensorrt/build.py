"""Building a plan from an ONNX file, with TensorRT 10, TensorRT 11 or that for RTX."""

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.identity import model_sha256, sha256_of
from edgepipe.models.shape_profile import ShapeProfile, require_profiles
from edgepipe.models.tensorrt.api import (
    Builder,
    Config,
    Layer,
    Network,
    Parser,
    ParserError,
    TensorRt,
)
from edgepipe.models.tensorrt.cache import write_whole
from edgepipe.models.tensorrt.dla import DlaPlacement, placement
from edgepipe.models.tensorrt.host import Gpu
from edgepipe.models.tensorrt.library import RTX, TENSORRT
from edgepipe.models.tensorrt.plan import PlanFacts
from edgepipe.models.tensorrt.prepare import Prepared, prepare

Say = Callable[[str], None]
_WARNING = 2
"""Number of the severity of warnings; 0 and 1 are errors."""
_KEPT_LINES = 10_000
"""Of a build's log; the rest is forgotten."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a plan is built."""

    library: str = TENSORRT
    """``tensorrt`` or ``tensorrt_rtx``."""
    profiles: tuple[ShapeProfile, ...] = ()
    """One for each input with a free dimension."""
    dla_core: int | None = None
    """A deep learning accelerator to run on; None: the GPU."""
    allow_gpu_fallback: bool = False
    """Whether layers that the accelerator cannot run may run on the GPU."""
    workspace_bytes: int | None = None
    """Most scratch memory of a layer; None: TensorRT's default."""
    optimization_level: int | None = None
    """0 (fast to build) to 5 (fast to run); None: TensorRT's default."""
    timing_cache: Path | None = None
    """A file with the times of kernels, read and written: the next build is faster.
    RTX has none."""
    targets: tuple[str, ...] = ()
    """Compute capabilities (``86``) that the plan is for; only for RTX."""

    def record(self) -> dict[str, Any]:
        """What of it decides what the plan is."""
        return {
            "profiles": [str(profile) for profile in self.profiles],
            "dla_core": self.dla_core,
            "allow_gpu_fallback": self.allow_gpu_fallback,
            "workspace_bytes": self.workspace_bytes,
            "optimization_level": self.optimization_level,
            "targets": list(self.targets),
        }


def build_plan(
    trt: TensorRt,
    model: Path,
    options: BuildOptions,
    gpu: Gpu | None,
    say: Say = lambda line: None,
) -> tuple[bytes, PlanFacts]:
    """Build a plan for this machine, or for the targets.

    Types are those of the graph (strongly typed): what QuantizeLinear and
    DequantizeLinear enclose is computed in INT8, the rest in the type it has.

    Args:
        trt: The library.
        model: The ONNX file.
        options: How to build.
        gpu: This machine's; None where there is none, which only RTX can do without.
        say: Is given each warning of the build.

    Returns:
        The plan and the record of it.

    Raises:
        ModelError: The file is not what TensorRT takes; names nodes and operators, or
            the dimensions that have no profile.
        EngineError: The options do not fit the library or machine, or building failed.
    """
    _require_targets(options, gpu)
    digest = model_sha256(model)
    prepared = prepare(model.read_bytes(), str(model), model.parent)
    require_profiles(prepared.inputs, options.profiles)
    log = _Log(trt, say)
    with _no_collection():
        plan = _build(trt, model, prepared, options, log)
    placed = placement(log.lines) if options.dla_core is not None else None
    facts = replace(
        wanted(trt, model, options, gpu),
        model_sha256=digest,
        precision=prepared.precision,
        input={name: list(shape) for name, shape in prepared.inputs.items()},
        dla=placed,
    )
    if options.targets:
        facts = replace(facts, sm=options.targets, device=None)
    return plan, facts


@contextmanager
def _no_collection() -> Generator[None]:
    """Keep Python from freeing what an earlier build left while this one runs.

    The library calls the logger with a lock held that the destructor of a builder
    wants, too: a builder that is collected there never comes back.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _build(
    trt: TensorRt, model: Path, prepared: Prepared, options: BuildOptions, log: "_Log"
) -> bytes:
    builder: Builder = trt.Builder(log.logger)
    network = _parse(trt, builder, prepared, model, log)
    config = _configure(trt, builder, network, options)
    plan = builder.build_serialized_network(network, config)
    if options.dla_core is not None:
        placed = placement(log.lines)
        placed.require(fallback_allowed=options.allow_gpu_fallback)
    if plan is None:
        raise EngineError(f"TensorRT cannot build {model}: {log.last_error()}")
    _keep_timings(config, options)
    return bytes(plan)


def _require_targets(options: BuildOptions, gpu: Gpu | None) -> None:
    if options.library != RTX and options.targets:
        raise EngineError(
            f"{options.library} builds for the GPU that it runs on: targets are "
            f"for {RTX}"
        )
    if options.dla_core is not None and options.library == RTX:
        raise EngineError(f"{RTX} knows no DLA")
    if options.timing_cache is not None and options.library == RTX:
        raise EngineError(f"{RTX} keeps no timing cache: it times nothing")
    if gpu is None and not options.targets:
        raise EngineError("there is no GPU here to build for")


# --- reading --------------------------------------------------------------------------


def _parse(
    trt: TensorRt, builder: Builder, prepared: Prepared, model: Path, log: "_Log"
) -> Network:
    """The network of an ONNX file."""
    flag = trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    network: Network = builder.create_network(1 << int(flag))
    parser: Parser = trt.OnnxParser(network, log.logger)
    if not parser.parse(prepared.data):
        errors = "; ".join(_errors(parser)) or log.last_error()
        raise ModelError(f"TensorRT cannot read {model}: {errors}")
    return network


def _errors(parser: Parser) -> Iterator[str]:
    """One sentence for each error, naming node and operator."""
    for index in range(parser.num_errors):
        error: ParserError = parser.get_error(index)
        name, operator = error.node_name(), error.node_operator()
        lines = [line.strip() for line in error.desc().splitlines() if line.strip()]
        why = next((line for line in lines if not line.startswith("Invalid N")), "")
        yield f"node {error.node()} {name!r} ({operator or '?'}): {why}"


# --- building -------------------------------------------------------------------------


def _configure(
    trt: TensorRt, builder: Builder, network: Network, options: BuildOptions
) -> Config:
    config: Config = builder.create_builder_config()
    _add_profiles(builder, config, options.profiles)
    if options.workspace_bytes is not None:
        pool = trt.MemoryPoolType.WORKSPACE
        config.set_memory_pool_limit(pool, options.workspace_bytes)
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.dla_core is not None:
        _use_dla(trt, builder, config, network, options)
    if options.timing_cache is not None:
        cache = config.create_timing_cache(_bytes_of(options.timing_cache))
        # Times of another GPU are not taken: the library starts an empty cache then.
        config.set_timing_cache(cache, ignore_mismatch=False)
    if options.targets:
        _set_targets(trt, config, options.targets)
    return config


def _add_profiles(
    builder: Builder, config: Config, profiles: Sequence[ShapeProfile]
) -> None:
    """All inputs' ranges belong into one profile."""
    if not profiles:
        return
    profile = builder.create_optimization_profile()
    for each in profiles:
        profile.set_shape(each.tensor, each.min, each.opt, each.max)
    if config.add_optimization_profile(profile) < 0:
        wrong = "; ".join(map(str, profiles))
        raise EngineError(f"TensorRT refuses the profile: {wrong}")


def _use_dla(
    trt: TensorRt,
    builder: Builder,
    config: Config,
    network: Network,
    options: BuildOptions,
) -> None:
    """Put everything on the accelerator that it can run."""
    core = options.dla_core
    if core is None or core >= builder.num_DLA_cores:
        raise EngineError(
            f"no DLA core {core}: this machine has {builder.num_DLA_cores} for "
            f"TensorRT {trt.__version__}"
        )
    config.default_device_type = trt.DeviceType.DLA
    config.DLA_core = core
    if options.allow_gpu_fallback:
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
        return
    layers: list[Layer] = [network.get_layer(i) for i in range(network.num_layers)]
    unfit = [layer.name for layer in layers if not config.can_run_on_DLA(layer)]
    DlaPlacement((), tuple(unfit), {}).require(fallback_allowed=False)


def _set_targets(trt: Any, config: Any, targets: Sequence[str]) -> None:
    """What only RTX has: one plan for several generations of GPUs."""
    known: dict[str, Any] = {
        name.removeprefix("SM"): value
        for name, value in trt.ComputeCapability.__members__.items()
        if name.startswith("SM")
    }
    if unknown := [target for target in targets if target not in known]:
        raise EngineError(
            f"no target {', '.join(unknown)}: this release builds for "
            f"{', '.join(sorted(known, key=int))}"
        )
    config.num_compute_capabilities = len(targets)
    for index, target in enumerate(targets):
        config.set_compute_capability(known[target], index)


def _bytes_of(path: Path) -> bytes:
    """A timing cache; empty where there is none yet."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise EngineError(f"{path}: cannot read the timing cache: {error}") from error


def _keep_timings(config: Config, options: BuildOptions) -> None:
    cache = config.get_timing_cache() if options.timing_cache is not None else None
    if options.timing_cache is None or cache is None:
        return
    try:
        write_whole(options.timing_cache, bytes(cache.serialize()))
    except OSError as error:
        raise EngineError(
            f"{options.timing_cache}: cannot write the timing cache: {error}"
        ) from error


def wanted(
    trt: TensorRt, model: Path, options: BuildOptions, gpu: Gpu | None
) -> PlanFacts:
    """What a plan of this model must say of itself to be loaded on this machine.

    Raises:
        ModelError: The model cannot be read.
    """
    calibration = model.with_suffix(".calibration.json")
    return PlanFacts(
        trt=trt.__version__,
        library=options.library,
        cuda=None if gpu is None else gpu.cuda,
        device=None if gpu is None else gpu.device,
        sm=() if gpu is None else (gpu.sm,),
        model_sha256=model_sha256(model),
        calib_sha256=sha256_of(calibration) if calibration.exists() else None,
        options=options.record(),
    )


# --- the log --------------------------------------------------------------------------


class _Log:
    """Takes the library's messages: a plan is not only bytes, but what was said."""

    def __init__(self, trt: TensorRt, say: Say) -> None:
        self.lines: list[str] = []
        self._errors: list[str] = []
        base: Any = trt.ILogger

        class Logger(base):  # type: ignore[misc]
            """Called by the library from any of its threads."""

            def log(self, severity: Any, message: str) -> None:
                take(int(severity), message, say)

        # pybind11 wants the base's own initialiser called; the default does that.
        take = self._take
        self.logger: Any = Logger()

    def last_error(self) -> str:
        """What the library complained of last."""
        return self._errors[-1] if self._errors else "it says not why"

    def _take(self, severity: int, message: str, say: Say) -> None:
        line = " ".join(message.split())
        if len(self.lines) < _KEPT_LINES:
            self.lines.append(line)
        if severity < _WARNING:
            self._errors.append(line)
        elif severity == _WARNING:
            say(line)
