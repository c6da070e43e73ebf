"""Which layers a deep learning accelerator took, and which it left to the GPU."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from edgepipe.errors import EngineError

_MOVED = (
    re.compile(
        r"Layer '(?P<name>.+)' \([^()]*\): .*Switching this layer's device type"
    ),
    re.compile(
        r"Default DLA is enabled but layer (?P<name>.+?) is not supported on DLA"
    ),
    re.compile(r"Validation failed for DLA layer:? (?P<name>.+?)\. Switching to GPU"),
    re.compile(r"Layer (?P<name>.+?) is not supported on DLA"),
)
"""How releases from 7 to 10 say that a layer runs on the GPU instead."""
_ON = re.compile(r"\[(?P<device>Dla|Gpu)Layer\] (?:[A-Z_]+: )?(?P<name>.+)")
_REASON = re.compile(
    r"(?:\[\w+\] )*(?P<name>\S.*?): (?P<why>DLA (?:cores|only|does).+)"
)


@dataclass(frozen=True, slots=True)
class DlaPlacement:
    """What a build log says about where layers run."""

    on_dla: tuple[str, ...]
    """Groups of layers, as TensorRT names them."""
    moved_to_gpu: tuple[str, ...]
    """Layers that were meant for the accelerator, in the order of the log."""
    reasons: dict[str, str]
    """Why, for those of which the log says it."""

    def label(self) -> str:
        """What the latency of such an engine may be called."""
        if not self.moved_to_gpu:
            return "DLA"
        return f"DLA and GPU ({len(self.moved_to_gpu)} layers moved to the GPU)"

    def require(self, *, fallback_allowed: bool) -> None:
        """Refuse layers on the GPU, unless they are allowed there.

        Raises:
            EngineError: Lists them, with the reasons that are known.
        """
        if fallback_allowed or not self.moved_to_gpu:
            return
        layers = ", ".join(
            f"{name!r}" + (f" ({self.reasons[name]})" if name in self.reasons else "")
            for name in self.moved_to_gpu
        )
        raise EngineError(
            f"{len(self.moved_to_gpu)} layers cannot run on the DLA and the GPU is "
            f"forbidden to them: {layers}; allow the fall-back or change the layers"
        )


def placement(log: Iterable[str]) -> DlaPlacement:
    """Read the lines of a build log, with or without time and severity before them."""
    moved, on = dict[str, None](), {"Dla": dict[str, None](), "Gpu": dict[str, None]()}
    reasons: dict[str, str] = {}
    for line in log:
        if found := next(filter(None, (each.search(line) for each in _MOVED)), None):
            moved[found["name"]] = None
        elif found := _ON.search(line):
            on[found["device"]][found["name"].strip()] = None
        elif found := _REASON.search(line):
            reasons.setdefault(_bare(found["name"]), found["why"].strip().rstrip("."))
    # A log without warnings still ends with the list of who runs where.
    gpu = [name for name in on["Gpu"] if not name.startswith("Reformatting")]
    left = moved or (dict.fromkeys(gpu) if on["Dla"] else {})
    return DlaPlacement(
        tuple(on["Dla"]),
        tuple(left),
        {name: why for name, why in reasons.items() if name in left},
    )


def _bare(name: str) -> str:
    """A layer's name without the time and severity before it."""
    return name.rpartition("] ")[2]
