"""The records of many frames as columns, so that an hour of them is soon counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry.records import FrameRecord, Span

Integers: TypeAlias = NDArray[np.int64]
"""(n,): one for each frame or span."""
Flags: TypeAlias = NDArray[np.bool_]
"""(n,): one for each frame or span."""


@dataclass(frozen=True, slots=True)
class StreamFrames:
    """The frames of one stream in the order of their sequences. Times are in ns."""

    fates: Counter[tuple[str, str]]
    """How many, by fate and reason."""
    capture_ns: Integers
    done_ns: Integers
    on_time: Flags
    delivered: Flags
    variants: Counter[str]
    """How many of the frames on time each variant looked at."""


@dataclass(frozen=True, slots=True)
class ResourceWork:
    """How the working time of one resource was spent."""

    busy_ns: int
    """Summed over its slots; the time of a batch counts once."""
    wasted_ns: float
    """Time that went into frames which were not on time. The frames of a batch share
    its time equally."""

    @property
    def wasted_share(self) -> float | None:
        """Wasted by busy time; None when the resource did nothing."""
        return min(self.wasted_ns / self.busy_ns, 1.0) if self.busy_ns else None


def by_stream(records: Sequence[FrameRecord]) -> dict[str, StreamFrames]:
    """The frames of each stream, streams in the order of their names."""
    names, stream = _codes(record.stream for record in records)
    order = np.lexsort((_column(records, "sequence"), stream))
    capture_ns = _column(records, "capture_ns")[order]
    done_ns = _column(records, "done_ns")[order]
    on_time, delivered = _on_time(records)[order], _delivered(records)[order]
    bounds = np.searchsorted(stream[order], np.arange(len(names) + 1))
    fates = Counter(map(attrgetter("stream", "fate", "reason"), records))
    looked = Counter(map(attrgetter("stream", "fate", "variant"), records))
    found: dict[str, StreamFrames] = {}
    for name, begin, end in zip(names, bounds, bounds[1:], strict=False):
        part = slice(begin, end)
        found[name] = StreamFrames(
            Counter({(f, why): n for (s, f, why), n in fates.items() if s == name}),
            capture_ns[part],
            done_ns[part],
            on_time[part],
            delivered[part],
            Counter(
                {
                    variant: n
                    for (s, fate, variant), n in looked.items()
                    if (s, fate) == (name, "completed")
                }
            ),
        )
    return found


def by_resource(records: Sequence[FrameRecord]) -> dict[str, ResourceWork]:
    """Where the working time went, by name of the resource."""
    spans = list(chain.from_iterable(record.spans for record in records))
    if not spans:
        return {}
    names, resource = _codes(span.resource for span in spans)
    _, stage = _codes(span.stage for span in spans)
    start_ns, end_ns = _column(spans, "start_ns"), _column(spans, "end_ns")
    lengths = np.fromiter((len(r.spans) for r in records), np.int64, len(records))
    missed = np.repeat(~_on_time(records), lengths)
    # The frames of a batch show the same span: they begin and end together, on one
    # worker, which runs one job at a time and can show it for no other reason.
    keys = (end_ns, start_ns, _column(spans, "worker"), stage, resource)
    order = np.lexsort(keys)
    first = _first_of_each([key[order] for key in keys])
    members = np.diff(np.append(first, len(spans)))
    misses = np.add.reduceat(missed[order].astype(np.int64), first)
    owner = resource[order][first]
    time_ns = (end_ns - start_ns)[order][first]
    wasted_ns = time_ns * (misses / members)
    return {
        name: ResourceWork(
            int(time_ns[owner == index].sum()), float(wasted_ns[owner == index].sum())
        )
        for index, name in enumerate(names)
    }


def _on_time(records: Sequence[FrameRecord]) -> Flags:
    fates = (record.fate == "completed" for record in records)
    return np.fromiter(fates, np.bool_, len(records))


def _delivered(records: Sequence[FrameRecord]) -> Flags:
    delivered = map(attrgetter("delivered"), records)
    return np.fromiter(delivered, np.bool_, len(records))


def _column(rows: Sequence[FrameRecord] | Sequence[Span], field: str) -> Integers:
    return np.fromiter(map(attrgetter(field), rows), np.int64, len(rows))


def _codes(texts: Iterable[str]) -> tuple[list[str], Integers]:
    """The different texts in order, and for each text its index among them."""
    given = list(texts)
    names = sorted(set(given))
    index = {name: code for code, name in enumerate(names)}
    return names, np.fromiter(map(index.__getitem__, given), np.int64, len(given))


def _first_of_each(keys: Sequence[Integers]) -> Integers:
    """Where each new combination of the sorted keys begins; there is at least one."""
    changed = np.zeros(len(keys[0]) - 1, np.bool_)
    for key in keys:
        changed |= key[1:] != key[:-1]
    return np.concatenate(([0], np.flatnonzero(changed) + 1))
