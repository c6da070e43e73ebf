"""Read by a type checker: what edgepipe uses is in TensorRT 10's published types.

There are none for TensorRT 11; that its bindings have every name is a test, and that
for RTX, of the same generation, is run for real.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorrt as trt

    from edgepipe.models.tensorrt.api import (
        Builder,
        Config,
        Layer,
        Network,
        Parser,
        ParserError,
        Profile,
        Tensor,
        TensorRt,
    )

    LIBRARY: TensorRt = trt

    def builder(one: trt.Builder) -> None:
        """The builder."""
        _: Builder = one

    def config(one: trt.IBuilderConfig) -> None:
        """How to build."""
        _: Config = one

    def network(one: trt.INetworkDefinition) -> None:
        """A network."""
        _: Network = one

    def layer(one: trt.ILayer) -> None:
        """A layer."""
        _: Layer = one

    def tensor(one: trt.ITensor) -> None:
        """A tensor."""
        _: Tensor = one

    def parser(one: trt.OnnxParser) -> None:
        """The parser."""
        _: Parser = one

    def parser_error(one: trt.ParserError) -> None:
        """What it found wrong."""
        _: ParserError = one

    def profile(one: trt.IOptimizationProfile) -> None:
        """Ranges of free dimensions."""
        _: Profile = one

    VALUES = (
        trt.BuilderFlag.GPU_FALLBACK,
        trt.DeviceType.DLA,
        trt.MemoryPoolType.WORKSPACE,
        trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED,
    )
