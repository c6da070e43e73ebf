"""What a V4L2 device offers at a size, and which of it is best."""

import errno
from collections.abc import Sequence
from typing import NamedTuple

from edgepipe.stages.sources import v4l2_abi as abi
from edgepipe.stages.sources.raw_formats import KNOWN_FIRST, is_known
from edgepipe.stages.sources.v4l2_kernel import Kernel

COMPRESSED = ("MJPG", "JPEG", "H264", "HEVC")
"""The cheapest to decode without frames in between first."""
USUAL_FPS = 30.0
_MOST = 64
"""Formats or rates that a device is asked for at most."""


class Offer(NamedTuple):
    """A format, and its highest rate at the size."""

    fourcc: str
    fps: float | None
    """None: the device does not say."""


def offers(kernel: Kernel, fd: int, width: int, height: int) -> list[Offer]:
    """All formats, also those that cannot be read here."""
    found: list[Offer] = []
    for index in range(_MOST):
        each = abi.FormatDescription(index=index, type=abi.CAPTURE)
        try:
            kernel.ioctl(fd, abi.ENUM_FMT, each)
        except OSError as error:
            if error.errno == errno.EINVAL:
                break
            raise
        rate = _fastest(kernel, fd, each.pixelformat, width, height)
        found.append(Offer(abi.fourcc(each.pixelformat), rate))
    return found


def choose(
    offered: Sequence[Offer], fps: float | None, fourcc: str | None
) -> Offer | None:
    """The cheapest one that is fast enough, else the fastest; None: none is known.

    Many cameras send uncompressed images only slowly, because their cable is too thin.
    """
    known = [offer for offer in offered if _rank(offer.fourcc) is not None]
    if fourcc is not None:
        known = [offer for offer in known if offer.fourcc == fourcc]
    wanted = fps or USUAL_FPS
    # Cameras say 30000/1001 where people say 30.
    enough = [o for o in known if o.fps is None or o.fps >= 0.99 * wanted]
    if enough:
        return min(enough, key=lambda offer: _rank(offer.fourcc) or 0)
    return max(known, key=lambda offer: offer.fps or 0, default=None)


def _rank(fourcc: str) -> int | None:
    order = (*KNOWN_FIRST, *COMPRESSED)
    if fourcc in order:
        return order.index(fourcc)
    return len(order) if is_known(fourcc) else None


def _fastest(
    kernel: Kernel, fd: int, pixelformat: int, width: int, height: int
) -> float | None:
    rates: list[float] = []
    for index in range(_MOST):
        each = abi.FrameInterval(
            index=index, pixel_format=pixelformat, width=width, height=height
        )
        try:
            kernel.ioctl(fd, abi.ENUM_FRAMEINTERVALS, each)
        except OSError:  # not every driver knows, and no size has endless rates
            break
        if each.shortest.numerator:
            rates.append(each.shortest.denominator / each.shortest.numerator)
        if each.type != abi.DISCRETE:
            break
    return max(rates, default=None)
