"""A model file read, simplified, run once, and its outputs recognised."""

from dataclasses import dataclass, replace
from pathlib import Path

from edgepipe.errors import ModelError
from edgepipe.models.inspect import metadata, probe, reading
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.counting import work_of
from edgepipe.models.inspect.entrance import Entrance, entrance_of
from edgepipe.models.inspect.facts import Facts, facts_of
from edgepipe.models.inspect.probe import Probe, probe_input
from edgepipe.models.inspect.recognise import recognise
from edgepipe.models.inspect.seen import Seen, see
from edgepipe.models.inspect.verdict import Verdict

_TRIED = 320
"""Side of the image for a network that is free in size, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Examination:
    """All that is known of a file."""

    facts: Facts
    entrance: Entrance | None
    size: tuple[int, int] | None
    """Height and width of the input by the file; None where free."""
    outputs: tuple[Seen, ...]
    verdict: Verdict
    failure: str | None
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
    size = _size(path, entrance, answers)
    tried = size or metadata.image_size(facts.header.metadata) or (_TRIED, _TRIED)
    if entrance is not None:
        model = reading.with_input_shape(
            model, entrance.tensor.name, entrance.shape(*tried)
        )
        fixed = reading.graph_of(model)
        facts = replace(facts, work=work_of(fixed))
        small = probe.simplified(model.SerializeToString(), path.parent)
        graph = reading.graph_of_bytes(small) if small is not None else fixed
    ran = _run(path, facts, entrance, tried)
    outputs = _wanted(path, see(graph, ran), answers)
    names = metadata.class_names(facts.header.metadata)
    verdict = recognise(
        outputs,
        *tried,
        task=metadata.task(facts.header.metadata),
        classes=len(names) if names else None,
    )
    return Examination(facts, entrance, size, outputs, verdict, ran.failure)


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


def _run(
    path: Path, facts: Facts, entrance: Entrance | None, tried: tuple[int, int]
) -> Probe:
    if facts.foreign:
        words = ", ".join(facts.foreign)
        return Probe({}, f"operators that only other programs bring: {words}")
    if entrance is None or len(facts.inputs) != 1:
        return Probe({}, "it has not one input with an image's four dimensions")
    top = 255.0 if entrance.white == 255 else 1.0
    tensor = probe_input(
        entrance.shape(*tried),
        entrance.tensor.dtype,
        channels_last=bool(entrance.channels_last),
        top=top,
    )
    return probe.run(path, {entrance.tensor.name: tensor})


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
