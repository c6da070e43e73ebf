# ruff: noqa: A002, D102 - names are the library's, and its manual describes them
"""The part of TensorRT's Python interface that edgepipe uses.

It is the same in TensorRT 10, TensorRT 11 and TensorRT for RTX; what only one of them
has is asked for by name where it is used.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Severity(Protocol):
    """How bad a message is; an enumeration whose least number is the worst."""

    def __int__(self) -> int: ...


class Tensor(Protocol):
    """An input or output of a network."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Any: ...


class Layer(Protocol):
    """One layer of a parsed network."""

    @property
    def name(self) -> str: ...


class Network(Protocol):
    """A parsed network."""

    @property
    def num_inputs(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    def get_input(self, index: int) -> Any: ...
    def get_layer(self, index: int) -> Any: ...


class ParserError(Protocol):
    """What the parser found wrong."""

    def node(self) -> int: ...
    def node_name(self) -> str: ...
    def node_operator(self) -> str: ...
    def desc(self) -> str: ...


class Parser(Protocol):
    """Reads ONNX into a network."""

    @property
    def num_errors(self) -> int: ...
    @property
    def parse(self) -> Callable[..., Any]:
        """Given the model's bytes, whether it could be read.

        The published types of its second argument contradict themselves.
        """
        ...

    def get_error(self, index: int) -> Any: ...


class Profile(Protocol):
    """Ranges of free dimensions."""

    def set_shape(
        self,
        input: str,
        min: Any,
        opt: Any,
        max: Any,
    ) -> None: ...


class Config(Protocol):
    """How to build."""

    builder_optimization_level: int
    DLA_core: int
    default_device_type: Any

    def set_flag(self, flag: Any) -> None: ...
    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None: ...
    def add_optimization_profile(self, profile: Any) -> int: ...
    def create_timing_cache(self, serialized_timing_cache: Any) -> Any: ...
    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool: ...
    def get_timing_cache(self) -> Any: ...
    def can_run_on_DLA(self, layer: Any) -> bool: ...  # noqa: N802


class Builder(Protocol):
    """Makes everything else."""

    @property
    def num_DLA_cores(self) -> int: ...  # noqa: N802
    def create_network(self, flags: int) -> Any: ...
    def create_builder_config(self) -> Any: ...
    def create_optimization_profile(self) -> Any: ...
    def build_serialized_network(self, network: Any, config: Any) -> Any: ...


class TensorRt(Protocol):
    """The module: ``tensorrt`` or ``tensorrt_rtx_bindings``."""

    __version__: str
    ILogger: Any
    BuilderFlag: Any
    DeviceType: Any
    MemoryPoolType: Any
    NetworkDefinitionCreationFlag: Any

    def Builder(self, logger: Any) -> Any: ...  # noqa: N802
    def OnnxParser(self, network: Any, logger: Any) -> Any: ...  # noqa: N802


ENUMS: dict[str, Sequence[str]] = {
    "BuilderFlag": ("GPU_FALLBACK",),
    "DeviceType": ("DLA",),
    "MemoryPoolType": ("WORKSPACE",),
    "NetworkDefinitionCreationFlag": ("STRONGLY_TYPED",),
}
"""Names of the enumerations' values that are used."""
