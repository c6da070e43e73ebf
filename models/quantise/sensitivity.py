"""Which layers INT8 hurts, and the fewest that must stay in FP32. Pure search.

What a trial costs in accuracy is found out by whoever calls: here it is a number.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Drop = Callable[[frozenset[str]], float]
"""From the names of the layers in FP32 to the drop in points: what it costs that the
others are INT8."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one layer costs when it alone is INT8."""

    layer: str
    drop: float
    """Points; below 0 when it happens to help."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the trade-off between accuracy and layers in FP32."""

    kept: frozenset[str]
    drop: float


@dataclass(slots=True)
class Search:
    """The fewest layers in FP32 that keep the drop within a limit.

    Args:
        order: All layers, the most sensitive first.
        drop_of: Judges a choice; no choice is judged twice.
        most: The drop that is allowed, in points.
    """

    order: Sequence[str]
    drop_of: Drop
    most: float
    points: list[Point] = field(default_factory=list[Point])
    """Everything that was judged, in that order."""

    def run(self) -> Point | None:
        """The choice with the fewest layers that was found; None if none will do.

        More and more of the order are kept, twice as many each time; the number is
        then narrowed down, and of what is left each layer that can go, goes. All
        layers in FP32 are the network itself, so there is always a choice unless the
        judge finds fault with that.
        """
        count = self._enough()
        if count is None:
            return None
        kept = list(self.order[: self._narrowed(count)])
        return self._without_idle(kept)

    def widen(self, found: Point) -> Iterator[Point]:
        """From a choice that failed elsewhere on: one more layer of the order a time.

        Whoever calls stops when it is enough.
        """
        kept = set(found.kept)
        for layer in self.order:
            if layer not in kept:
                kept.add(layer)
                yield self._judged(kept)

    def _enough(self) -> int | None:
        count = 0
        while not self._holds(self.order[:count]):
            if count == len(self.order):
                return None
            count = min(max(1, 2 * count), len(self.order))
        return count

    def _narrowed(self, enough: int) -> int:
        """Bisect between a number that is too small and one that is enough."""
        low = enough // 2 if enough > 1 else 0
        if low == enough or self._holds(self.order[:low]):
            return low
        while enough - low > 1:
            middle = (low + enough) // 2
            if self._holds(self.order[:middle]):
                enough = middle
            else:
                low = middle
        return enough

    def _without_idle(self, kept: list[str]) -> Point:
        """Give up each layer that is not needed, the least sensitive first."""
        for layer in reversed(kept.copy()):
            fewer = [each for each in kept if each != layer]
            if self._holds(fewer):
                kept = fewer
        return self._judged(kept)

    def _holds(self, kept: Sequence[str]) -> bool:
        return self._judged(kept).drop <= self.most

    def _judged(self, kept: Sequence[str] | set[str]) -> Point:
        chosen = frozenset(kept)
        for point in self.points:
            if point.kept == chosen:
                return point
        point = Point(chosen, self.drop_of(chosen))
        self.points.append(point)
        return point


def effects(
    layers: Sequence[str], drop_of: Drop, progress: Callable[[int], None] | None = None
) -> tuple[Effect, ...]:
    """What each layer costs by itself, the most sensitive first.

    Args:
        layers: All layers that can be INT8.
        drop_of: Judges a choice of layers in FP32.
        progress: Called with the number of layers that have been looked at.
    """
    everything = frozenset(layers)
    found: list[Effect] = []
    for layer in layers:
        found.append(Effect(layer, drop_of(everything - {layer})))
        if progress is not None:
            progress(len(found))
    # Equal ones in the order of the network: early errors go through all of it.
    return tuple(sorted(found, key=lambda effect: -effect.drop))
