"""A model file read, simplified, run once, and its outputs recognised."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgepipe.errors import ModelError
from edgepipe.models.inspect import metadata, reading
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.apart import Results, work_apart
from edgepipe.models.inspect.counting import work_of
from edgepipe.models.inspect.entrance import Entrance, entrance_of
from edgepipe.models.inspect.facts import Facts, facts_of
from edgepipe.models.inspect.probe import probe_input
from edgepipe.models.inspect.recognise import recognise
from edgepipe.models.inspect.seen import Seen, see
from edgepipe.models.inspect.verdict import Verdict

TRIED = 320
"""Side of the image for a network that is free in size, if nothing else is said."""
LARGEST_SIDE = 8192
"""Of an image, in pixels; the model card's own bound."""
_FED = ("float32", "uint8")
"""Types of input that the engines feed."""


@dataclass(frozen=True, slots=True)
class Examination:
    """All that is known of a file."""

    facts: Facts
    entrance: Entrance | None
    tried: tuple[int, int]
    """Height and width at which the shapes of the outputs hold."""
    outputs: tuple[Seen, ...]
    verdict: Verdict
    obstacles: tuple[str, ...]
    """What the engines cannot do with it, whatever the card says."""
    not_run: str | None
    """Why the network could not be run once, None if it could."""


def examine(path: Path, answers: Answers) -> Examination:
    """Look at a model file.

    Raises:
        ModelError: It cannot be read as ONNX, or an answer contradicts it.
    """
    model = reading.read(path)
    graph = reading.graph_of(model)
    facts = facts_of(path, graph, reading.header_of(model))
    entrance = entrance_of(graph)
    if entrance is not None and answers.layout is not None:
        entrance = replace(entrance, channels_last=answers.layout == "nhwc")
    data = facts.header.metadata
    tried = _size(path, entrance, answers) or metadata.image_size(data)
    tried = tried or (TRIED, TRIED)
    obstacles = tuple(_obstacles(facts, entrance, tried))
    results = Results(failure=obstacles[0] if obstacles else "it has no image input")
    if entrance is not None and max(tried) <= LARGEST_SIDE:
        model = reading.with_input_shape(
            model, entrance.tensor.name, entrance.shape(*tried)
        )
        results = _apart(path, model.SerializeToString(), entrance, tried, obstacles)
        graph = reading.graph_of_bytes(results.fixed or model.SerializeToString())
        facts = replace(facts, work=work_of(graph))
    if results.simplified is not None:
        graph = reading.graph_of_bytes(results.simplified)
        if facts.work.uncounted:
            macs = work_of(graph)
            facts = replace(facts, work=replace(macs, parameters=facts.work.parameters))
    outputs = _wanted(path, see(graph, results.values), answers)
    names = metadata.class_names(data)
    verdict = recognise(
        outputs,
        *tried,
        task=metadata.task(data),
        classes=len(names) if names else None,
    )
    verdict = replace(verdict, remarks=(*verdict.remarks, *_suppression(facts)))
    return Examination(
        facts, entrance, tried, outputs, verdict, obstacles, results.failure
    )


def _suppression(facts: Facts) -> Iterator[str]:
    """Operators by which the graph itself removes boxes that overlap."""
    found = [op for op in facts.operators if "NMS" in op or "NonMaxSup" in op]
    if found:
        yield f"NMS is in the graph: {', '.join(found)}"


def _size(
    path: Path, entrance: Entrance | None, answers: Answers
) -> tuple[int, int] | None:
    """The file's size where it is fixed, else what was said."""
    height, width = entrance.spatial if entrance is not None else (None, None)
    if answers.size is not None:
        for what, fixed, said in zip(
            ("high", "wide"), (height, width), answers.size, strict=True
        ):
            if fixed is not None and fixed != said:
                raise ModelError(f"{path}: the input is {fixed} {what}, not {said}")
        return answers.size
    return (height, width) if height is not None and width is not None else None


def _obstacles(
    facts: Facts, entrance: Entrance | None, tried: tuple[int, int]
) -> Iterator[str]:
    if facts.foreign:
        words = ", ".join(facts.foreign)
        yield f"operators that neither onnxruntime nor OpenVINO brings: {words}"
    opset, newest = facts.header.opsets.get("ai.onnx", 0), facts.header.newest_opset
    if opset > newest:
        yield f"operator set {opset}, the newest one known here is {newest}"
    if len(facts.inputs) > 1:
        names = ", ".join(repr(each.name) for each in facts.inputs)
        yield f"{len(facts.inputs)} inputs ({names[:200]}): edgepipe feeds one image"
    if entrance is None:
        yield "no input with the four dimensions of an image"
        return
    if entrance.tensor.dtype not in _FED:
        yield f"the input is {entrance.tensor.dtype}: export it with float32 or uint8"
    if entrance.channels not in (None, 3):
        yield f"the input has {entrance.channels} channels, edgepipe feeds 3"
    shape = entrance.tensor.shape
    if shape is not None and isinstance(shape[0], int) and shape[0] > 1:
        yield f"a batch of {shape[0]} is written into the file: export it with one of 1"
    if max(tried) > LARGEST_SIDE:
        high, wide = tried
        yield f"the input is {wide}x{high}, a side is at most {LARGEST_SIDE} pixels"


def _apart(
    path: Path,
    model: bytes,
    entrance: Entrance,
    tried: tuple[int, int],
    obstacles: tuple[str, ...],
) -> Results:
    """Shapes and a run, if nothing stands in the way of one."""
    folder = path.resolve().parent
    if obstacles:
        results = work_apart(model, folder, None)
        return replace(results, failure=obstacles[0])
    tensor = probe_input(
        entrance.shape(*tried),
        entrance.tensor.dtype,
        channels_last=bool(entrance.channels_last),
        top=255.0 if entrance.white == 255 else 1.0,
    )
    return work_apart(model, folder, {entrance.tensor.name: tensor})


def _wanted(
    path: Path, outputs: tuple[Seen, ...], answers: Answers
) -> tuple[Seen, ...]:
    """Those that were named, or all."""
    by_name = {seen.name: seen for seen in outputs}
    for name in answers.outputs:
        if name not in by_name:
            there = ", ".join(map(repr, by_name))
            raise ModelError(f"{path}: no output {name!r} (it has {there})")
    return tuple(by_name[name] for name in answers.outputs) or outputs
