"""What a recording looks like to a network, through the pipeline's own steps.

Calibration and evaluation see exactly the input that a run would make: the same
source, decoder and conversion.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import InputError
from edgepipe.models.card import ModelCard
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Letterbox
from edgepipe.pipeline.source import Arrival, Reducing
from edgepipe.pipeline.stage import FrameError
from edgepipe.stages.convert import Convert
from edgepipe.stages.decode import Decode
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.stages.sources.open import LIVE, open_source, scheme_of
from edgepipe.telemetry.environment import hide_credentials

_NO_HURRY_NS = 1 << 62


class Sample(NamedTuple):
    """One frame as a network is given it."""

    sequence: int
    """Number of the frame in its recording, from 0."""
    image: NDArray[np.uint8]
    """(height, width, 3) in the network's colour order; the caller's own."""
    letterbox: Letterbox
    """Where the picture lies in the image."""
    size: tuple[int, int]
    """Width and height of the captured picture, in pixels."""


def network_inputs(
    card: ModelCard,
    uri: str,
    *,
    every: int = 1,
    first: int = 0,
    limit: int | None = None,
) -> Iterator[Sample]:
    """The frames of a recording as network input, damaged ones left out.

    Args:
        card: Of the network.
        uri: A recording: anything that ``run`` reads.
        every: Only each so-many-th frame is looked at.
        first: Number of the first of these.
        limit: Most frames that are given; None: all.

    Yields:
        One sample for each frame, in order.

    Raises:
        InputError: The recording cannot be read.
        ValueError: ``every`` or ``limit`` is below 1.
    """
    if every < 1 or (limit is not None and limit < 1):
        raise ValueError(f"expected every and limit of 1 or more: {every}, {limit}")
    with closing(open_source(uri)) as source:
        if isinstance(source, Reducing):
            source.reduce_to(lambda width, height: _inside(card, width, height))
        ring = BufferRing(1, card.height, card.width)
        decode = Decode(source, sheds=False)
        convert = Convert(
            ring, card.height, card.width, card.color, card.align, card.pad_value
        )
        given = 0
        while given != limit and (arrival := source.next_arrival()) is not None:
            if not isinstance(arrival, Arrival) or not _wanted(arrival, first, every):
                continue
            frame = Frame("samples", arrival.index, 0, _NO_HURRY_NS, arrival.pts_ns)
            try:
                sample = _sample(convert.process(decode.process(frame, 0), 0))
            except FrameError:
                continue
            given += 1
            yield sample


def _wanted(arrival: Arrival, first: int, every: int) -> bool:
    return arrival.index >= first and (arrival.index - first) % every == 0


def _sample(frame: Frame) -> Sample:
    """Take the input out of its slot, which the next frame will use."""
    slot, letterbox, size = frame.tensor, frame.letterbox, frame.size
    if slot is None or letterbox is None or size is None:
        raise ValueError("expected a converted frame")
    image = slot.array.copy()
    slot.give_back()
    return Sample(frame.sequence, image, letterbox, size)


def _inside(card: ModelCard, width: int, height: int) -> tuple[int, int]:
    placed = letterbox_for(width, height, card.width, card.height, card.align)
    return placed.width, placed.height


def spread(
    card: ModelCard, uris: Sequence[str], images: int, *, between: bool = False
) -> Iterator[Sample]:
    """About so many frames, spread evenly over recordings, each getting its share.

    Args:
        card: Of the network.
        uris: Recordings, one or more.
        images: How many at most, in all.
        between: Begin half a step later: of a recording that is long enough these are
            other frames than without.

    Yields:
        One sample for each frame, recording by recording.

    Raises:
        InputError: A recording cannot be read.
        ValueError: There are fewer images than recordings.
    """
    if not 0 < len(uris) <= images:
        raise ValueError(f"{images} images of {len(uris)} recordings")
    for number, uri in enumerate(uris):
        share = (images + number) // len(uris)
        every = max(1, frames_in(uri) // share)
        first = every // 2 if between else 0
        yield from network_inputs(card, uri, every=every, first=first, limit=share)


def frames_in(uri: str) -> int:
    """How many frames a recording has, found without decoding any.

    Raises:
        InputError: It cannot be read, or is a camera.
    """
    if scheme_of(uri) in LIVE:
        named = hide_credentials(uri)
        raise InputError(f"{named}: is a camera; edgepipe record it, and take that")
    with closing(open_source(uri)) as source:
        arrivals = iter(source.next_arrival, None)
        return sum(isinstance(arrival, Arrival) for arrival in arrivals)
