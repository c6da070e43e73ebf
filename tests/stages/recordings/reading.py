"""All that a source gives."""

import numpy as np

from edgepipe.pipeline.source import (
    Arrival,
    DamagedError,
    EventKind,
    Source,
    SourceEvent,
)
from edgepipe.stages.convert import to_bgr


def read(source: Source) -> tuple[list[int | None], list[int | None], list[EventKind]]:
    """Media times, greys (None: damaged) and events of a source."""
    times: list[int | None] = []
    greys: list[int | None] = []
    events: list[EventKind] = []
    while (found := source.next_arrival()) is not None:
        if isinstance(found, SourceEvent):
            events.append(found.kind)
            continue
        assert isinstance(found, Arrival)
        times.append(found.pts_ns)
        try:
            greys.append(round(float(np.mean(to_bgr(source.decode(found.index))))))
        except DamagedError:
            greys.append(None)
    source.close()
    return times, greys, events
