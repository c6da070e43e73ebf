"""The head of the card: the one that was found, or the one that the user names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgepipe.errors import ModelError
from edgepipe.models.heads import CLASSIFIERS, DETECTORS, KEYPOINTS, suppresses
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.examine import Examination
from edgepipe.models.inspect.origin import Origin
from edgepipe.models.inspect.seen import Seen
from edgepipe.models.inspect.verdict import Reading

KNOWN = frozenset((*DETECTORS, *CLASSIFIERS, *KEYPOINTS))
"""Names of heads."""
_READS_ONE = frozenset(
    name
    for kinds in (DETECTORS, CLASSIFIERS, KEYPOINTS)
    for name, kind in kinds.items()
    if len(kind.reads) == 1
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The head section of the card, as far as it is known."""

    kind: str | None
    origin: Origin
    note: str
    outputs: tuple[str, ...] = ()
    outputs_origin: Origin = Origin.FILE
    outputs_question: str = "their names in the head's order: --outputs A,B"
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    given: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options that the user said."""
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: int | None = None
    """Of the scores, a background with them; None if the outputs do not tell."""

    @property
    def classes(self) -> int | None:
        """How many there are; None if that is not known."""
        if self.columns is None or "background" in self.asked or "scores" in self.asked:
            return None
        place = {**self.options, **self.given}.get("background", "none")
        return self.columns - (place != "none")

    @property
    def thresholds(self) -> tuple[str, ...]:
        """The thresholds that the card of this head has."""
        if self.kind is None or (self.kind in DETECTORS and suppresses(self.kind)):
            return "score_threshold", "iou_threshold"
        return ("score_threshold",) if self.kind in DETECTORS else ()


def chosen_head(found: Examination, answers: Answers) -> Chosen:
    """The head, or what has to be asked.

    Raises:
        ModelError: No such head.
    """
    if answers.head is not None:
        return _with_options(_named(found, answers, answers.head), answers)
    certain = found.verdict.certain
    if certain is not None and certain.head in KNOWN:
        return _with_options(_of(certain, Origin.FILE, certain.because), answers)
    return Chosen(None, Origin.UNKNOWN, _question(found), given=answers.head_options)


def _of(reading: Reading, origin: Origin, note: str) -> Chosen:
    return Chosen(
        reading.head,
        origin,
        note,
        reading.outputs,
        options=reading.options,
        asked=reading.asked,
        columns=reading.classes,
    )


def _with_options(chosen: Chosen, answers: Answers) -> Chosen:
    """The same with the options that the user gives, and outputs by name."""
    given = answers.head_options
    if answers.outputs:
        origin = Origin.GIVEN if set(answers.outputs) != set(chosen.outputs) else None
        chosen = replace(
            chosen,
            outputs=chosen.outputs if origin is None else answers.outputs,
            outputs_origin=Origin.GIVEN,
        )
    return replace(
        chosen,
        given=given,
        options={k: v for k, v in chosen.options.items() if k not in given},
        asked={k: v for k, v in chosen.asked.items() if not _answered(k, given)},
    )


def _answered(key: str, given: Mapping[str, object]) -> bool:
    return key in given or f"{key}_file" in given


def _named(found: Examination, answers: Answers, head: str) -> Chosen:
    """The head that the user names, with what the file says of it."""
    if head not in KNOWN:
        words = ", ".join(sorted(KNOWN))
        raise ModelError(f"--head: unknown head {head!r} (known: {words})")
    readings = [each for each in found.verdict.readings if each.head == head]
    if len(readings) == 1 and readings[0].outputs:
        return _of(readings[0], Origin.GIVEN, "")
    names = answers.outputs or _by_number(found.outputs, head)
    return Chosen(head, Origin.GIVEN, _against(found, head), names)


def _by_number(outputs: Sequence[Seen], head: str) -> tuple[str, ...]:
    """The only output, for a head that reads one; more are told apart by name."""
    if len(outputs) == 1 and head in _READS_ONE:
        return (outputs[0].name,)
    return ()


def _against(found: Examination, head: str) -> str:
    """What the file says to a head that the user names and that was not found."""
    certain = found.verdict.certain
    if certain is None:
        return ""
    return f"the file itself looks like {certain.head}: {certain.because}"


def _question(found: Examination) -> str:
    possible = found.verdict.readings
    if possible:
        ways = "; ".join(
            f"{each.head} (outputs {', '.join(each.outputs) or '?'}: {each.because})"
            for each in possible
        )
        return f"what reads the outputs: {ways}: --head, --outputs"
    return f"what reads the outputs; none of {', '.join(sorted(KNOWN))} is seen: --head"
