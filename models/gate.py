"""The accuracy gate: what an INT8 file was found to cost, and for which files.

It lies beside the INT8 file, ``X.gate.json`` beside ``X.onnx``, and holds for exactly
the files, input and head that it names.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.evaluate.verdict import POINTS, Drop, why_not
from edgepipe.models.identity import head_sha256, model_sha256, preprocessing_sha256
from edgepipe.models.onnx_parts import quantised_operators

SCHEMA = "edgepipe.gate/1"
_TEXTS = (
    *("model", "reason", "metric", "reference", "source", "data_sha256"),
    *("engine", "engine_version", "device", "tools"),
)
_COUNTS = ("frames", "objects", "block", "resamples", "seed")
_ROUNDING = 0.01
"""Points. A record may be rounded for people."""
Kind = Literal["ap", "agreement", "top-1", "keypoints"]
"""``ap`` was measured with labels; the others against the FP32 network."""


@dataclass(frozen=True, slots=True)
class GateKey:
    """What a gate holds for."""

    int8_sha256: str
    fp32_sha256: str
    preprocessing_sha256: str
    head_sha256: str


_CALLED = {
    "int8_sha256": "INT8 file",
    "fp32_sha256": "FP32 file",
    "preprocessing_sha256": "preprocessing (the card's input)",
    "head_sha256": "head (the card's head, classes and thresholds)",
}


@dataclass(frozen=True, slots=True)
class ClassResult:
    """One class; values are points."""

    objects: int
    fp32: float
    int8: float


@dataclass(frozen=True, slots=True)
class GateResult:
    """What was measured, with what, and the answer. Values are points, 0 to 100."""

    model: str
    """Name on the card."""
    key: GateKey
    passed: bool
    reason: str
    """Why it did not pass; empty if it did."""
    kind: Kind
    metric: str
    """What the points are, in words."""
    reference: str
    """What both networks were judged against, in words."""
    fp32: float
    int8: float
    drop: float
    upper: float
    """With 95 % confidence the drop is not above this."""
    allowed: float
    """Most that ``upper`` may be."""
    frames: int
    objects: int
    classes: dict[str, ClassResult]
    block: int
    """Frames drawn together by the bootstrap."""
    resamples: int
    seed: int
    source: str
    """The recording, as it was named."""
    data_sha256: str
    """Of all that the networks were given."""
    labels: str | None
    labels_sha256: str | None
    engine: str
    engine_version: str
    device: str
    tools: str
    notes: tuple[str, ...] = ()
    """What a person should know, such as classes that are not in the labels."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    def summary(self) -> dict[str, Any]:
        """What a run's summary says of it."""
        return {
            name: getattr(self, name)
            for name in (
                *("kind", "passed", "reason", "reference"),
                *("fp32", "int8", "drop", "upper", "allowed", "frames", "objects"),
                *("engine", "engine_version", "device"),
            )
        }


@dataclass(frozen=True, slots=True)
class GateCheck:
    """What was found beside an INT8 file."""

    result: GateResult | None
    """What the file says; None if there is none that can be read."""
    problem: str
    """Why it does not let the network run; empty if it does."""

    def summary(self) -> dict[str, Any]:
        """What a run's summary says; ``passed`` is whether it holds for these files."""
        if self.result is None:
            return {"passed": False, "reason": self.problem}
        return self.result.summary() | {
            "passed": not self.problem,
            "reason": self.problem,
        }


def gate_path(file: Path) -> Path:
    """Where the gate of an INT8 file lies."""
    return file.with_suffix(".gate.json")


def key_of(card: ModelCard, file: ModelFile) -> GateKey:
    """What a gate of this file must hold for.

    ``fp32_sha256`` is empty where the card lists no FP32 file or it is not there: a
    board does not need it.

    Raises:
        ModelError: A file is there and cannot be read.
    """
    fp32 = next((each.path for each in card.files if each.precision == "fp32"), None)
    there = fp32 is not None and fp32.exists()
    return GateKey(
        int8_sha256=model_sha256(file.path),
        fp32_sha256=model_sha256(fp32) if there and fp32 is not None else "",
        preprocessing_sha256=preprocessing_sha256(card),
        head_sha256=head_sha256(card),
    )


def not_fp32(file: ModelFile) -> str:
    """Why a file that a card calls FP32 is none; empty if nothing speaks against it.

    Raises:
        ModelError: It cannot be read.
    """
    found = quantised_operators(file.path)
    if not found:
        return ""
    return (
        f"{file.path}: its card says {file.precision}, and {found} of its operators are"
        f" those of INT8: list it as int8, which needs an accuracy gate"
    )


def check_gate(card: ModelCard, file: ModelFile, named: str) -> GateCheck:
    """Whether an INT8 file has passed its gate, and not another one.

    Args:
        card: Of the network.
        file: The INT8 file.
        named: What a person calls the card, for the command that makes a gate.

    Raises:
        ModelError: The network's own files cannot be read.
    """
    path = gate_path(file.path)
    remedy = f"edgepipe model eval {named} --source RECORDING --write"
    if not path.exists():
        return GateCheck(None, f"{file.path}: has no accuracy gate; {remedy} makes one")
    try:
        result = read_gate(path)
    except ModelError as error:
        return GateCheck(None, f"{error}; {remedy} makes a new one")
    differs = _difference(result.key, key_of(card, file))
    if differs:
        return GateCheck(result, f"{path}: {differs}; {remedy} judges this one")
    if not result.passed:
        return GateCheck(result, f"{path}: not passed: {result.reason}")
    return GateCheck(result, "")


def read_gate(path: Path) -> GateResult:
    """Read a gate.

    Raises:
        ModelError: It cannot be read, is none of this version, or contradicts itself.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        if not isinstance(document, dict):
            raise ValueError("expected an object")
        return _result(cast(dict[str, Any], document))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the accuracy gate: {reason}") from error
    except KeyError as error:
        raise ModelError(f"{path}: no accuracy gate: {error} is missing") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path}: no accuracy gate: {error}") from error


def write_gate(path: Path, result: GateResult) -> None:
    """Put a gate where :func:`check_gate` looks, whole or not at all.

    Raises:
        ModelError: It cannot be written.
    """
    from edgepipe.models.quantise.table import replace_file

    text = json.dumps(result.document(), indent=1, allow_nan=False)
    replace_file(path, text.encode() + b"\n")


def _difference(stored: GateKey, wanted: GateKey) -> str:
    """Which part is another one than the gate was made for; empty if none is."""
    for name, called in _CALLED.items():
        was, now = getattr(stored, name), getattr(wanted, name)
        if was != now and now:
            return f"was made for another {called} (sha256 {was[:12]}, now {now[:12]})"
    return ""


def _result(document: dict[str, Any]) -> GateResult:
    """From JSON, every value of the type that it should have."""
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']!r}, expected {SCHEMA!r}")
    # Later versions add fields; these are passed over.
    values = {each.name: document[each.name] for each in fields(GateResult)}
    values["key"] = GateKey(**values["key"])
    values["classes"] = {
        str(name): ClassResult(**each) for name, each in values["classes"].items()
    }
    values["notes"] = tuple(values["notes"])
    result = GateResult(**values)
    for name in ("fp32", "int8", "drop", "upper", "allowed"):
        if type(values[name]) not in (int, float) or not math.isfinite(values[name]):
            raise ValueError(f"{name}: expected a number, got {values[name]!r}")
    _require_types(values)
    if result.kind not in get_args(Kind) or type(result.passed) is not bool:
        raise ValueError("kind or passed has no known value")
    if result.passed and (why := result.reason or _contradiction(result)):
        raise ValueError(f"it says passed, and {why}")
    return result


def _require_types(values: Mapping[str, Any]) -> None:
    for names, kind, called in (
        (_TEXTS, str, "a text"),
        (_COUNTS, int, "a whole number"),
    ):
        for name in names:
            if type(values[name]) is not kind:
                got = f"{values[name]!r:.40}"
                raise ValueError(f"{name}: expected {called}, got {got}")
    for name, value in asdict(values["key"]).items():
        if not isinstance(value, str):
            raise ValueError(f"{name}: expected a text, got {value!r:.40}")


def _contradiction(result: GateResult) -> str:
    """Why its own figures do not let it pass; empty if they do."""
    if abs(result.fp32 - result.int8 - result.drop) > _ROUNDING:
        return (
            f"FP32's {result.fp32:g} points less INT8's {result.int8:g} are not the"
            f" drop of {result.drop:g}"
        )
    if not 0 < result.allowed <= POINTS:
        return f"{result.allowed:g} points are no drop to be allowed"
    drop = Drop(
        result.fp32,
        result.int8,
        result.drop,
        result.upper,
        result.frames,
        result.objects,
        {},
        result.block,
        result.resamples,
        result.seed,
    )
    return why_not(drop, result.allowed)
