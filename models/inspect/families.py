"""How the authors of known networks feed them. Printed as such, never as a finding."""

from dataclasses import dataclass

Three = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Family:
    """None: there is no way that all of them share."""

    called: str
    color: str | None = None
    mean: Three | None = None
    std: Three | None = None
    align: str | None = None
    score_threshold: float = 0.25
    iou_threshold: float = 0.45


_SHARES = (255.0, 255.0, 255.0)
_ZERO = (0.0, 0.0, 0.0)
_ULTRALYTICS = Family("Ultralytics", "rgb", _ZERO, _SHARES, "center", 0.25, 0.7)
_NANODET = Family(
    "NanoDet",
    "bgr",
    (103.53, 116.28, 123.675),
    (57.375, 57.12, 58.395),
    None,
    0.35,
    0.6,
)
_UNKNOWN = Family("")

_BY_HEAD = {
    "yolov5": Family("YOLOv5 and YOLOv7", "rgb", _ZERO, _SHARES, "center"),
    "yolov8": Family("YOLOv8, v9 and 11", "rgb", _ZERO, _SHARES, "center", 0.25, 0.7),
    # Since release 0.1.1 (2021-08); networks trained before it take ImageNet's mean.
    "yolox": Family(
        "YOLOX since 0.1.1", "bgr", _ZERO, (1.0, 1.0, 1.0), "top_left", 0.3
    ),
    "nanodet": _NANODET,
    "nanodet-plus": _NANODET,
    "detr": Family("DETR", score_threshold=0.5),
}


def family_of(head: str | None, *, ultralytics: bool) -> Family:
    """The family of a network whose head is known or whose metadata name its maker."""
    if ultralytics:
        return _ULTRALYTICS
    return _BY_HEAD.get(head or "", _UNKNOWN)
