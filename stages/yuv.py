"""The arithmetic between YUV and RGB (ITU-T H.273), as matrices for cv2.transform."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ColorOrder
from edgepipe.pipeline.frame import ColorMatrix

_LUMA_OF_RED_AND_BLUE = {
    ColorMatrix.BT601: (0.299, 0.114),
    ColorMatrix.BT709: (0.2126, 0.0722),
    ColorMatrix.BT2020: (0.2627, 0.0593),
}


@cache
def rgb_from_yuv(
    matrix: ColorMatrix, full_range: bool, order: ColorOrder
) -> NDArray[np.float32]:
    """(3, 4): multiplied with (Y, U, V, 1) it gives full-range channels in ``order``.

    All values are on the 0..255 scale; U and V are centred on 128.
    """
    red, blue = _LUMA_OF_RED_AND_BLUE[matrix]
    green = 1 - red - blue
    u_to_blue, v_to_red = 2 * (1 - blue), 2 * (1 - red)
    rgb = np.array(
        [
            [1, 0, v_to_red],
            [1, -u_to_blue * blue / green, -v_to_red * red / green],
            [1, u_to_blue, 0],
        ]
    )
    if not full_range:
        rgb *= [255 / 219, 255 / 224, 255 / 224]
    zero = np.array([0.0 if full_range else 16.0, 128.0, 128.0])
    whole = np.column_stack([rgb, -rgb @ zero])
    result = np.array(whole if order is ColorOrder.RGB else whole[::-1], np.float32)
    result.flags.writeable = False
    return result
