"""Whether a plan fits a machine: decided from its record, before anything loads it.

TensorRT deserialises a plan of another version or GPU with an error at best and a crash
at worst; by then it is too late to say what to do.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.dla import DlaPlacement


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a plan was made from and for, or what this machine has; None: unknown."""

    trt: str | None = None
    """Version of TensorRT."""
    sm: tuple[str, ...] = ()
    """Compute capabilities without the point; of a machine one."""
    device: str | None = None
    """Name of the GPU."""
    cuda: str | None = None
    """CUDA version of the driver."""
    library: str | None = None
    """``tensorrt`` or ``tensorrt_rtx``."""
    model_sha256: str | None = None
    """Of the ONNX file."""
    calib_sha256: str | None = None
    """Of the record of the calibration beside it, where there is one."""
    precision: str | None = None
    input: Mapping[str, Any] | None = None
    """Name, shape and type of the input, or its profile."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How it was built."""
    dla: DlaPlacement | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a plan may be loaded, and what speaks against it."""

    refusals: tuple[str, ...]
    """Reasons not to load it."""
    warnings: tuple[str, ...]
    """It works, but may be slower than a plan that was built here."""

    @property
    def load(self) -> bool:
        """Whether it may be loaded."""
        return not self.refusals

    def message(self, plan: Path | str, rebuild: str) -> str:
        """One line with both values of everything that differs, and the remedy."""
        differences = "; ".join(self.refusals + self.warnings)
        advice = "rebuild it here" if self.refusals else "it may be slow: rebuild it"
        return f"{plan}: {differences}: {advice} with {rebuild!r}"


def judge(built: PlanFacts, here: PlanFacts) -> Judgement:
    """Compare what a plan was built for with what there is.

    What one of the two does not know is not compared, except the version of TensorRT
    and the compute capability of the plan: without them nothing is known.
    """
    refusals = [
        f"it says not for which {name} it was built"
        for name, known in (
            ("TensorRT version", built.trt),
            ("compute capability", built.sm),
        )
        if not known
    ]
    refusals += [
        f"it was built for {name} {_text(was)}, this machine has {_text(now)}"
        for name, was, now in (
            ("library", built.library, here.library),
            ("TensorRT version", built.trt, here.trt),
            ("CUDA version", _major(built.cuda), _major(here.cuda)),
        )
        if was and now and was != now
    ]
    if built.sm and here.sm and not set(here.sm) <= set(built.sm):
        refusals.append(
            f"it was built for compute capability {_text(built.sm)}, this machine has "
            f"{_text(here.sm)}"
        )
    refusals += [
        f"it was built from {name} {_text(was)}, now it is {_text(now)}"
        for name, was, now in (
            ("a model with sha256", built.model_sha256, here.model_sha256),
            ("a calibration with sha256", built.calib_sha256, here.calib_sha256),
            ("precision", built.precision, here.precision),
            ("input", built.input, here.input),
            ("options", built.options, here.options),
        )
        if was and now and was != now
    ]
    return Judgement(tuple(refusals), tuple(_warnings(built, here)))


def _warnings(built: PlanFacts, here: PlanFacts) -> list[str]:
    warnings: list[str] = []
    several = len(built.sm) > 1  # then it was built for no device in particular
    if built.device and here.device and built.device != here.device and not several:
        warnings.append(
            f"it was built for device model {built.device}, this machine has "
            f"{here.device}"
        )
    same_major = _major(built.cuda) == _major(here.cuda)
    if built.cuda and here.cuda and built.cuda != here.cuda and same_major:
        warnings.append(
            f"it was built with a driver for CUDA {built.cuda}, this machine's is for "
            f"{here.cuda}"
        )
    return warnings


def _major(version: str | None) -> str | None:
    return None if version is None else version.partition(".")[0]


def _text(value: tuple[str, ...] | Mapping[str, Any] | str) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(dict(value), sort_keys=True)


# --- the record -----------------------------------------------------------------------


def read_facts(path: Path) -> PlanFacts:
    """The record beside a plan.

    Raises:
        EngineError: It cannot be read, or is no such record.
    """
    try:
        data = json.loads(path.read_text())
        return _facts(data)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise EngineError(
            f"{path}: cannot read what the plan was built for ({error}): rebuild it"
        ) from error


_TEXTS = (
    *("trt", "device", "cuda", "library", "model_sha256", "calib_sha256"),
    "precision",
)


def _facts(data: Mapping[str, Any]) -> PlanFacts:
    texts = {key: data.get(key) for key in _TEXTS}
    wrong = [key for key, value in texts.items() if not isinstance(value, str | None)]
    if wrong:
        raise TypeError(f"expected text: {', '.join(wrong)}")
    dla = data.get("dla")
    return PlanFacts(
        **texts,
        sm=_several(data.get("sm") or []),
        input=data.get("input"),
        options=data.get("options") or {},
        dla=None if dla is None else _placement(dla),
    )


def _several(value: list[object] | str) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (value,)


def _placement(data: Mapping[str, Any]) -> DlaPlacement:
    return DlaPlacement(
        tuple(data["on_dla"]), tuple(data["names"]), dict(data["reasons"])
    )


def record(facts: PlanFacts) -> dict[str, Any]:
    """What is written beside a plan."""
    dla = facts.dla
    return {
        "library": facts.library,
        "trt": facts.trt,
        "cuda": facts.cuda,
        "sm": list(facts.sm),
        "device": facts.device,
        "model_sha256": facts.model_sha256,
        "calib_sha256": facts.calib_sha256,
        "precision": facts.precision,
        "input": None if facts.input is None else dict(facts.input),
        "options": dict(facts.options),
        "dla": None
        if dla is None
        else {
            "label": dla.label(),
            "on_dla": list(dla.on_dla),
            "layers_moved_to_gpu": len(dla.moved_to_gpu),
            "names": list(dla.moved_to_gpu),
            "reasons": dla.reasons,
        },
    }
