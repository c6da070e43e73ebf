"""An ONNX network run by PyTorch, operator by operator.

PyTorch reads no ONNX. The converter that people use (onnx2torch) had its last release
in 2024, knows no QuantizeLinear and cannot be imported without torchvision; a program
of torch.export would be another file than the one that was judged. So the few
operators of vision networks are written down here: the file is the same in every
engine, and what is not known is refused by name.

Everything that does not depend on the image is computed once, at load. INT8 is
simulated: values are rounded as the file says and multiplied as floats.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.inspect.graph import Graph, Node
from edgepipe.models.pytorch.library import torch
from edgepipe.models.pytorch.operators import OPERATORS, PARAMETERS

Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Step:
    """One operator that depends on the image."""

    run: Callable[..., Any]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    forgets: tuple[str, ...]
    """Tensors that nobody reads after it."""


class TorchNetwork:
    """A network for one size of image.

    Args:
        graph: The file.
        opset: The version of ONNX's operators that it is written in.
        constants: All of its stored tensors.
        shape: Of the input.
        outputs: Names of the outputs that are wanted.
        device: ``cpu`` or ``cuda``.

    Raises:
        EngineError: It has an operator that is not known, or one that asks for a
            number which depends on the image.
    """

    def __init__(
        self,
        graph: Graph,
        opset: int,
        constants: Mapping[str, NDArray[Any]],
        shape: Sequence[int],
        outputs: Sequence[str],
        device: str,
    ) -> None:
        self._input = graph.inputs[0].name
        self._outputs = tuple(outputs)
        self._dtype = getattr(torch, graph.inputs[0].dtype)
        folder = _Folder(graph, opset, constants)
        image = torch.zeros(tuple(shape), dtype=self._dtype)
        with torch.inference_mode():
            steps = list(folder.steps(image))
        self._steps = _forgetting(steps, self._outputs)
        used = {name for step in self._steps for name in step.reads}
        self._known = {
            name: value.to(device)
            for name, value in folder.known.items()
            if name in used or name in self._outputs
        }

    def run(self, image: Any, stopped: Stopped) -> dict[str, Any]:
        """The outputs, as tensors of the device; in inference mode.

        Raises:
            RuntimeError: PyTorch failed, or it was stopped.
        """
        values: dict[str, Any] = {**self._known, self._input: image}
        for step in self._steps:
            if stopped():
                raise RuntimeError("stopped")
            made = step.run(*(values[name] if name else None for name in step.reads))
            values.update(zip(step.makes, _several(made), strict=False))
            for name in step.forgets:
                del values[name]
        return {name: values[name] for name in self._outputs}


class _Folder:
    """Computes what does not depend on the image, and keeps steps for the rest."""

    def __init__(
        self, graph: Graph, opset: int, constants: Mapping[str, NDArray[Any]]
    ) -> None:
        self.known: dict[str, Any] = {
            name: torch.from_numpy(np.array(value)) for name, value in constants.items()
        }
        self._graph = graph
        self._opset = opset

    def steps(self, image: Any) -> Iterator[_Step]:
        """Run the network once, and give what must be run each time."""
        values: dict[str, Any] = {self._graph.inputs[0].name: image}
        for node in in_order(self._graph, (*self.known, *values)):
            run = self._prepared(node)
            reads = node.inputs[: PARAMETERS.get(node.op, len(node.inputs))]
            given = [
                None if not name else self.known.get(name, values.get(name))
                for name in reads
            ]
            try:
                made = run(*given)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                reason = " ".join(str(error).split())
                raise EngineError(
                    f"torch cannot run {_said(node)}: {reason}"
                ) from error
            fixed = node.op in ("Shape", "Size", "Constant") or all(
                not name or name in self.known for name in reads
            )
            made_by_name = zip(node.outputs, _several(made), strict=False)
            (self.known if fixed else values).update(made_by_name)
            if not fixed:
                yield _Step(run, tuple(reads), node.outputs, ())

    def _prepared(self, node: Node) -> Callable[..., Any]:
        """The operator with its attributes, and with the inputs that are numbers."""
        make = OPERATORS.get(node.op) if node.domain in ("", "ai.onnx") else None
        if make is None:
            raise EngineError(f"torch does not know {_said(node)}: use another engine")
        parameters: list[NDArray[Any] | None] = []
        for name in node.inputs[PARAMETERS.get(node.op, len(node.inputs)) :]:
            if name and name not in self.known:
                raise EngineError(
                    f"torch cannot run {_said(node)}: its input {name!r} depends on "
                    f"the image"
                )
            parameters.append(self.known[name].numpy() if name else None)
        facts = {"opset": self._opset, "num_outputs": len(node.outputs)}
        try:
            return make({**facts, **node.attributes}, parameters)
        except (ValueError, KeyError, IndexError) as error:
            raise EngineError(f"torch cannot run {_said(node)}: {error}") from error


def in_order(graph: Graph, given: Iterable[str]) -> Iterator[Node]:
    """The nodes, each after those whose outputs it reads.

    ONNX asks for that order, and other libraries do without.

    Raises:
        EngineError: Something that is read is nowhere made.
    """
    there = {"", *given}
    waiting = list(graph.nodes)
    while waiting:
        left: list[Node] = []
        for node in waiting:
            if there.issuperset(node.inputs):
                there.update(node.outputs)
                yield node
            else:
                left.append(node)
        if len(left) == len(waiting):
            missing = next(name for name in left[0].inputs if name not in there)
            raise EngineError(
                f"{_said(left[0])} reads {missing!r}, which nothing makes"
            )
        waiting = left


def _several(made: Any) -> Sequence[Any]:
    """What an operator made: one tensor or some."""
    return made if isinstance(made, tuple | list) else (made,)  # pyright: ignore[reportUnknownVariableType]


def _said(node: Node) -> str:
    return f"node {node.name or node.outputs[0]!r} ({node.op})"


def _forgetting(steps: list[_Step], outputs: tuple[str, ...]) -> list[_Step]:
    """The same steps, each of which lets go of what is not read again."""
    made = {name for step in steps for name in step.makes if name}
    later = set(outputs)
    found: list[_Step] = []
    for step in reversed(steps):
        here = {name for name in (*step.reads, *step.makes) if name in made}
        forgets = tuple(sorted(here - later))
        later |= here
        found.append(_Step(step.run, step.reads, step.makes, forgets))
    return found[::-1]
