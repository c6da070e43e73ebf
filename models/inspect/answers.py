"""What the user says of a model that its file does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Three = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Answers:
    """None or empty: not said."""

    name: str | None = None
    head: str | None = None
    outputs: tuple[str, ...] = ()
    head_options: Mapping[str, object] = field(default_factory=dict[str, object])
    size: tuple[int, int] | None = None
    """Height and width."""
    layout: str | None = None
    color: str | None = None
    mean: Three | None = None
    std: Three | None = None
    align: str | None = None
    pad_value: tuple[int, int, int] | None = None
    class_names: tuple[str, ...] = ()
    class_file: str | None = None
    """Where the names stand, relative to the card; None: they are listed in it."""
    score_threshold: float | None = None
    iou_threshold: float | None = None
    licence: str | None = None
    provenance: str | None = None
