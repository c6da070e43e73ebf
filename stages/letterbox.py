"""Where a picture of any size lies in the network's input. Pure arithmetic."""

from math import gcd
from typing import NamedTuple

from edgepipe.models.card import Align
from edgepipe.pipeline.frame import Letterbox

LEAST_SHARE = 0.95
"""A picture may be made this much smaller than it could be to keep its proportions."""


class Placement(NamedTuple):
    """The resized picture inside the network's input, in whole network pixels."""

    letterbox: Letterbox
    width: int
    height: int

    @property
    def rows(self) -> slice:
        """Rows of the network's input that the picture covers."""
        return slice(self.letterbox.pad_y, self.letterbox.pad_y + self.height)

    @property
    def columns(self) -> slice:
        """Columns of the network's input that the picture covers."""
        return slice(self.letterbox.pad_x, self.letterbox.pad_x + self.width)


def letterbox_for(
    width: int, height: int, net_width: int, net_height: int, align: Align
) -> Placement:
    """Fit a ``width`` x ``height`` picture into the network's input.

    A picture that is made smaller keeps its proportions exactly where a size in whole
    pixels allows that, else to within the rounding to whole pixels. The scales of the
    result are those of the size chosen, so mapping boxes back is exact. An odd rest of
    padding goes to the right and the bottom.

    Raises:
        ValueError: A size is not positive.
    """
    if min(width, height, net_width, net_height) < 1:
        raise ValueError(
            f"sizes must be positive, got {width}x{height} in {net_width}x{net_height}"
        )
    inner_width, inner_height = net_width, net_height
    if align is not Align.STRETCH:
        inner_width, inner_height = _fit(width, height, net_width, net_height)
    centred = align is Align.CENTER
    letterbox = Letterbox(
        scale_x=inner_width / width,
        scale_y=inner_height / height,
        pad_x=(net_width - inner_width) // 2 if centred else 0,
        pad_y=(net_height - inner_height) // 2 if centred else 0,
    )
    return Placement(letterbox, inner_width, inner_height)


def _fit(width: int, height: int, net_width: int, net_height: int) -> tuple[int, int]:
    """The size of the picture inside the network's input."""
    gain = min(net_width / width, net_height / height)
    if gain < 1:
        # With one ratio of small numbers for both axes the rows of the result repeat
        # their weights, which is what converting in bands needs.
        parts = gcd(width, height)
        kept = min(net_width * parts // width, net_height * parts // height)
        if kept >= LEAST_SHARE * gain * parts:
            return width * kept // parts, height * kept // parts
    return (
        max(1, min(net_width, round(width * gain))),
        max(1, min(net_height, round(height * gain))),
    )
