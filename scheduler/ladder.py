"""When streams are worked on more cheaply, and when they get their quality back.

Down at once, up slowly. Work that will not fit is known before anything is missed:
from the measured costs, the rates and the clocks. Where the sum seems to fit and
promises are broken all the same, one stream goes one rung down at a time. Who matters
least goes first, critical streams last. Up goes one stream at a time, and only if the
demand predicted for afterwards fits; after each move for misses the next try waits
twice as long, which bounds how often a stream can change its mind.

Only a miss that more room on a resource would have prevented counts against it: not one
that a contract allows, not one of a camera that stood still, and never one of a stream
that matters less than those who would have to give way.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from edgepipe.scheduler.events import Cause, RungChanged
from edgepipe.scheduler.job import PERMILLE
from edgepipe.scheduler.state import FOREVER_NS, ResourceState, StreamState

CONTROL_NS = 250_000_000
"""Time between two looks at demand and misses."""
FULL_PERMILLE = 1000
"""Above this demand by the slots' time streams go down."""
ROOM_PERMILLE = 970
"""Up only if the demand would stay below this."""
LOOKS = 4
"""Looks that misses are counted over."""
MISSES_PERMILLE = 20
"""More misses than this share of a resource's frames are too many."""
LEAST_MISSES = 3
"""Fewer within that time are bad luck."""
HOLD_NS = 1_000_000_000
"""Least time from a move to a try upward."""
LONGEST_HOLD_NS = 30_000_000_000
TRIAL_NS = 2_000_000_000
"""A try upward that has gone well for so long has succeeded."""


class _Watch:
    """Frames and misses of one resource, by criticality, since some looks ago."""

    __slots__ = ("frames", "misses", "past")

    def __init__(self) -> None:
        self.frames = 0
        self.misses = [0, 0, 0]
        self.past: deque[tuple[int, list[int]]] = deque(maxlen=LOOKS)

    def look(self) -> int | None:
        """The most important band that missed too often lately; None if none did."""
        self.past.append((self.frames, self.misses))
        self.frames, self.misses = 0, [0, 0, 0]
        frames = sum(count for count, _ in self.past)
        for band in range(3):
            misses = sum(counts[band] for _, counts in self.past)
            if misses >= LEAST_MISSES and misses * PERMILLE > frames * MISSES_PERMILLE:
                return band
        return None

    def forget(self) -> None:
        """A stream was moved: what was counted before says nothing any more."""
        self.past.clear()


class Ladder:
    """Moves streams on their ladders. It is asked at every event and mostly says no."""

    def __init__(
        self,
        streams: Mapping[str, StreamState],
        resources: Iterable[ResourceState],
        *,
        batched: bool,
    ) -> None:
        self._streams = streams
        self._resources = [r for r in resources if r.is_planned]
        self._watches = {resource.name: _Watch() for resource in self._resources}
        self._batched = batched
        self.next_look_ns = -FOREVER_NS
        self._moved_ns: int | None = None
        self._hold_ns = HOLD_NS
        self._trial: StreamState | None = None

    def left(
        self, resource: ResourceState, stream: StreamState, *, missed: bool
    ) -> None:
        """A frame has left that had been through, or waited for, the resource."""
        watch = self._watches.get(resource.name)
        if watch is not None:
            watch.frames += 1
            if missed:
                watch.misses[stream.band] += 1

    def look(self, now_ns: int) -> list[RungChanged]:
        """Look at demand and misses; the moves that follow."""
        self.next_look_ns = now_ns + CONTROL_NS
        if self._moved_ns is None:
            self._moved_ns = now_ns
        moves = self.relieve(now_ns, Cause.DEMAND)
        for resource in self._resources:
            band = self._watches[resource.name].look()
            if band is not None and not moves:
                moves += self._step_down(now_ns, resource, band)
        if self._trial is not None and now_ns - self._moved_ns >= TRIAL_NS:
            self._trial = None
            self._hold_ns = max(HOLD_NS, self._hold_ns // 2)
        if not moves and now_ns - self._moved_ns >= self._hold_ns:
            moves = self._step_up(now_ns)
        return moves

    def relieve(self, now_ns: int, cause: Cause) -> list[RungChanged]:
        """Go down until the expected demand fits, as far as the ladders reach."""
        moves: list[RungChanged] = []
        for resource in self._resources:
            demand = self.demand(resource, now_ns)
            while demand > FULL_PERMILLE:
                move = self._down(now_ns, resource, cause, demand, 0)
                if move is None:
                    break
                moves.append(move)
                demand = self.demand(resource, now_ns)
        return moves

    def demand(self, resource: ResourceState, now_ns: int) -> int:
        """Time that the resource is asked for, in thousandths of its slots' time."""
        return sum(
            self._ask(stream, stream.rung, resource, now_ns)
            for stream, _ in resource.users
        )

    def _ask(
        self, stream: StreamState, rung: int, resource: ResourceState, now_ns: int
    ) -> int:
        """A stream's part of the demand, if it were on the given rung."""
        period_ns = stream.arrivals.period_ns
        has_come = stream.arrivals.last_ns is not None
        if not period_ns or (has_come and stream.arrivals.next_ns(now_ns) is None):
            return 0
        spec = stream.spec
        how = spec.ladder[rung]
        total_ns = 0
        for index, (place, cost) in enumerate(
            zip(stream.places, stream.costs[rung], strict=True)
        ):
            if place is not resource:
                continue
            if not cost.alone.measured and rung:
                scale = how.cost_permille[index] if how.cost_permille else PERMILLE
                cost.expect(stream.costs[0][index], scale)
            cost_ns = cost.alone.mean_ns
            step = spec.steps[index]
            limit = step.batch_max if how.batch_max is None else how.batch_max
            if self._batched and limit > 1:
                cost_ns = _shared_ns(stream, index, rung, min(limit, step.batch_max))
            if not step.runs_on_track_only:
                cost_ns //= how.infer_every
            total_ns += cost_ns
        return total_ns * PERMILLE // (period_ns * how.stride * resource.slots)

    def _step_down(
        self, now_ns: int, resource: ResourceState, band: int
    ) -> list[RungChanged]:
        """One stream one rung down, because of misses."""
        cause = Cause.MISSES if self._trial is None else Cause.PROBE_FAILED
        demand = self.demand(resource, now_ns)
        move = self._down(now_ns, resource, cause, demand, band)
        return [] if move is None else [move]

    def _down(
        self,
        now_ns: int,
        resource: ResourceState,
        cause: Cause,
        demand: int,
        band: int,
    ) -> RungChanged | None:
        """Move who matters least, but no one more important than ``band``."""
        trial = self._trial
        chosen: StreamState | None = None
        key: tuple[int, ...] = ()
        for stream, _ in resource.users:
            if stream.band < band or not self._gains(stream, resource, now_ns):
                continue
            rank = (-stream.band, stream.spec.weight, stream.rung, stream.index)
            if chosen is None or rank < key:
                chosen, key = stream, rank
        if trial is not None and trial.rung < len(trial.costs) - 1:
            chosen, cause = trial, Cause.PROBE_FAILED
        if chosen is None:
            return None
        self._trial = None
        if cause in (Cause.MISSES, Cause.PROBE_FAILED):
            self._hold_ns = min(2 * self._hold_ns, LONGEST_HOLD_NS)
        return self._move(now_ns, chosen, chosen.rung + 1, cause, demand)

    def _gains(self, stream: StreamState, resource: ResourceState, now_ns: int) -> bool:
        """Whether the stream's next rung asks less of the resource."""
        if stream.rung + 1 >= len(stream.costs):
            return False
        now = self._ask(stream, stream.rung, resource, now_ns)
        return self._ask(stream, stream.rung + 1, resource, now_ns) < now

    def _step_up(self, now_ns: int) -> list[RungChanged]:
        """The most important of the lowered streams tries one rung up, if it fits."""
        lowered = [s for s in self._streams.values() if s.rung and not s.is_leaving]
        for stream in sorted(
            lowered, key=lambda s: (s.band, -s.spec.weight, -s.rung, s.index)
        ):
            demands = [
                self.demand(resource, now_ns)
                - self._ask(stream, stream.rung, resource, now_ns)
                + self._ask(stream, stream.rung - 1, resource, now_ns)
                for resource in dict.fromkeys(stream.places)
                if resource.is_planned
            ]
            if max(demands, default=0) < ROOM_PERMILLE:
                self._trial = stream
                return [
                    self._move(
                        now_ns,
                        stream,
                        stream.rung - 1,
                        Cause.PROBE,
                        max(demands, default=0),
                    )
                ]
        return []

    def _move(
        self, now_ns: int, stream: StreamState, rung: int, cause: Cause, demand: int
    ) -> RungChanged:
        stream.rung = rung
        self._moved_ns = now_ns
        for watch in self._watches.values():
            watch.forget()
        return RungChanged(stream.spec.id, rung, cause, demand)


def _shared_ns(stream: StreamState, index: int, rung: int, limit: int) -> int:
    """What a job costs in the best batch that its deadline and company allow.

    A frame waits for one running batch at most and for its own: two of them have to fit
    into the time that the other steps leave.
    """
    costs = stream.costs[rung]
    cost = costs[index]
    window_ns = stream.allowed_ns - sum(
        other.alone.plan_ns for other in costs if other is not cost
    )
    company = sum(
        other.costs[other.rung][step] is cost
        for other, step in stream.places[index].users
        if step < len(other.spec.steps)
    )
    best_ns = alone_ns = cost.alone.mean_ns
    for size in range(2, min(limit, max(company, 1)) + 1):
        factor = cost.factor(size)
        if 2 * alone_ns * factor // PERMILLE > window_ns:
            break
        best_ns = min(best_ns, alone_ns * factor // (PERMILLE * size))
    return best_ns
