"""The image with which a network is tried."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.self_check import probe_image


def probe_input(
    shape: tuple[int, int, int, int], dtype: str, *, channels_last: bool, top: float
) -> NDArray[Any]:
    """A drawn image as the network is given it, with values from 0 to ``top``."""
    height, width = shape[1:3] if channels_last else shape[2:]
    channels = shape[3] if channels_last else shape[1]
    image = probe_image(height, width)[0]
    image = image[..., np.arange(channels) % 3]
    tensor = (image if channels_last else np.moveaxis(image, 2, 0))[np.newaxis]
    scaled = tensor if dtype == "uint8" else tensor * (top / 255)
    return np.ascontiguousarray(scaled.astype(dtype))
