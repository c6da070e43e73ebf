"""What the core knows of frames, streams and resources while they are in flight."""

from collections.abc import Sequence
from enum import Enum

from edgepipe.scheduler.arrivals import Arrivals
from edgepipe.scheduler.budget import StepCost
from edgepipe.scheduler.job import PERMILLE, Job, Resource, StreamSpec

NOTHING = StepCost(0, ())
"""The cost of a step that is left out."""

FOREVER_NS = 1 << 62
"""Longer than any clock has run."""

BOOST = 8
"""How much more a frame is worth whose loss would break its stream's contract."""


RISKED = 4
"""One in so many of the misses that a contract allows may be risked for others."""
MOST_RISKED = 1000
"""Most of a frame that may be at risk at once, thousandths."""


class State(Enum):
    """Where a frame stands before its next step."""

    MOVING = 0
    """Between two steps."""
    BLOCKED = 1
    """Waits for an older frame of its stream to pass a stateful step."""
    READY = 2
    """Waits for a slot."""
    RUNNING = 3
    GONE = 4
    """Has left; its place on a heap may still have to be cleared."""


class FrameState:
    """A frame in flight. It is what a policy orders (:class:`policy.Waiting`)."""

    __slots__ = (
        "arrival",
        "band",
        "batch",
        "capture_ns",
        "costs",
        "deadline_ns",
        "held_by",
        "is_probe",
        "is_watched",
        "job",
        "needed_ns",
        "passed_over",
        "period_ns",
        "queued",
        "release_ns",
        "rung",
        "sequence",
        "state",
        "step",
        "stream",
        "stream_index",
        "track_only",
    )

    def __init__(
        self,
        stream: "StreamState",
        sequence: int,
        capture_ns: int,
        deadline_ns: int,
        arrival: int,
        now_ns: int,
    ) -> None:
        self.stream = stream
        self.stream_index = stream.index
        self.band = stream.band
        self.period_ns = stream.arrivals.period_ns
        self.sequence = sequence
        self.capture_ns = capture_ns
        self.deadline_ns = deadline_ns
        self.arrival = arrival
        self.release_ns = now_ns
        self.step = 0
        self.state = State.MOVING
        self.rung = stream.rung
        self.track_only = False
        self.costs = stream.costs[stream.rung]
        """Of each step, on its rung."""
        self.queued = True
        """False once it has begun the last queued step. It never becomes true again,
        also while an earlier queued step runs: room that was granted must not vanish.
        """
        self.is_probe = False
        """Run to the end although it seems doomed, so that its steps are measured."""
        self.is_watched = False
        """Whether the moment is noted from which it cannot be in time any more."""
        self.needed_ns = 0
        """Least time that the remaining steps take, when that was last asked."""
        self.held_by: ResourceState | None = None
        """The later resource whose backlog left no time, when that was last asked."""
        self.passed_over = 0
        """How many plans had to leave it out."""
        self.job: Job | None = None
        """While it runs."""
        self.batch = -1
        """Arrival number of the first frame of its last batch."""


class StreamState:
    """One stream's frames in flight, oldest first, and what is known of it."""

    __slots__ = (
        "allowance",
        "allowed_ns",
        "arrivals",
        "at_risk_ns",
        "band",
        "best_price",
        "blocked",
        "costs",
        "frames",
        "history",
        "index",
        "is_leaving",
        "last_sequence",
        "miss_age",
        "miss_run",
        "newest_deadline_ns",
        "next_admitted_ns",
        "outstanding_credits",
        "places",
        "queued",
        "refused_since_ns",
        "rung",
        "served_ns",
        "spec",
        "taken",
        "track_costs",
        "varies_at",
    )

    def __init__(
        self,
        spec: StreamSpec,
        index: int,
        places: Sequence["ResourceState"],
        costs: Sequence[Sequence[StepCost]],
    ) -> None:
        self.spec = spec
        self.index = index
        self.band = spec.criticality.band
        self.frames: dict[int, FrameState] = {}
        self.arrivals = Arrivals(spec.period_ns)
        self.allowed_ns = spec.deadline_ns
        """From arrival to deadline, as the last frame had it."""
        self.places = places
        """The resource of each step."""
        self.costs = costs
        """By rung and step."""
        self.track_costs = [
            cost if step.runs_on_track_only else NOTHING
            for step, cost in zip(spec.steps, costs[0], strict=True)
        ]
        """Of each step of a track-only frame."""
        self.varies_at = min(
            (
                index
                for rung in spec.ladder
                for index, scale in enumerate(rung.cost_permille)
                if scale != PERMILLE
            ),
            default=-1,
        )
        """The first step whose cost depends on the rung; -1: none does. Once it has
        begun, the frame stays on its rung."""
        self.blocked = 0
        """How many of the frames wait for an older one."""
        self.queued = 0
        """How many of the frames count against the queue's capacity."""
        self.outstanding_credits = 0
        self.last_sequence = -1
        self.newest_deadline_ns = 0
        self.rung = 0
        self.taken = 0
        """Frames that were not refused: what a stride counts."""
        self.miss_run = 0
        self.miss_age = 64
        """Frames in time since the last miss."""
        self.history = (1 << spec.contract.k) - 1 if spec.contract else 0
        """The last k outcomes, newest in the lowest bit; begins as if all went well."""
        self.next_admitted_ns: int | None = None
        """Before this moment the rate cap refuses frames."""
        self.served_ns: int | None = None
        """When a frame of it last got a planned resource, or first asked for one."""
        self.refused_since_ns: int | None = None
        """Since when the guard has held its jobs back."""
        self.allowance = 0
        """How much of a frame may be put at risk for lower classes, thousandths."""
        self.at_risk_ns = -FOREVER_NS
        """Frames that were put at risk have come to their ends by then."""
        self.best_price: int | None = None
        """The cheapest chance that a starving stream has seen since it was served."""
        self.is_leaving = False

    def outcome(self, *, in_time: bool) -> None:
        """Book the end of one frame."""
        self.miss_run = 0 if in_time else self.miss_run + 1
        self.miss_age = self.miss_age + 1 if in_time else 0
        contract = self.spec.contract
        if contract is not None:
            self.history = (self.history << 1 | in_time) & ((1 << contract.k) - 1)
            earned = PERMILLE * (contract.k - contract.m) // (RISKED * contract.k)
            self.allowance = min(MOST_RISKED, self.allowance + earned)

    def margin(self) -> int:
        """How many more misses in a row the contract allows; at least 0.

        A stream without a contract has promised nothing; a critical one has promised
        everything.
        """
        contract = self.spec.contract
        if contract is None:
            return 0 if self.band == 0 else 1
        m, k = contract.m, contract.k
        history = self.history
        for misses in range(k - m + 1):
            # After one more miss the window holds the newest k - 1 outcomes and it.
            history = history << 1 & ((1 << k) - 1)
            if bin(history).count("1") < m:
                return misses
        return k - m + 1

    def worth(self, frame: FrameState) -> int:
        """What it would bring to serve this frame in time."""
        value = self.spec.ladder[frame.rung].value_permille
        worth = self.spec.weight * value * (1 + self.miss_run)
        if self.spec.contract is not None and not self.margin():
            worth *= BOOST
        return worth

    def room(self) -> int:
        """How many more frames the queue and the bound in flight would take."""
        return min(
            self.spec.queue_capacity - self.queued,
            self.spec.max_in_flight - len(self.frames),
        )

    def oldest_waiting(self) -> FrameState | None:
        """The oldest frame that counts against the queue and is not being worked on."""
        for frame in self.frames.values():
            if frame.queued and frame.state is not State.RUNNING:
                return frame
        return None


class ResourceState:
    """A resource, what runs on it and what waits for it."""

    __slots__ = (
        "clock_permille",
        "free",
        "heap",
        "is_dirty",
        "is_planned",
        "last_band",
        "name",
        "ready",
        "running",
        "sizes",
        "slots",
        "top_band",
        "users",
        "wait_until_ns",
    )

    def __init__(self, resource: Resource, is_planned: bool) -> None:
        self.name = resource.name
        self.slots = resource.slots
        self.free = resource.slots
        self.is_planned = is_planned
        self.clock_permille = PERMILLE
        self.ready: list[FrameState] = []
        """What waits, if the policy plans here."""
        self.heap: list[tuple[tuple[int, ...], FrameState]] = []
        """What waits, in the policy's order, if it does not plan."""
        self.running: dict[int, int] = {}
        """By arrival number of a batch's first frame: when it is expected to end."""
        self.sizes: dict[int, int] = {}
        """The same: how many frames it has."""
        self.wait_until_ns: int | None = None
        """How long a slot that could be used is kept at most, since something was last
        started: who is never started is never measured again. None: none is kept."""
        self.users: list[tuple[StreamState, int]] = []
        """Streams with the index of their first step here, most important first."""
        self.top_band = self.last_band = 0
        """The most and the least important criticality that use it."""
        self.is_dirty = False

    def add_user(self, stream: StreamState) -> None:
        """A stream has steps here."""
        step = stream.places.index(self)
        self._set_users([*self.users, (stream, step)])

    def remove_user(self, stream: StreamState) -> None:
        """The stream has gone."""
        self._set_users([user for user in self.users if user[0] is not stream])

    def _set_users(self, users: list[tuple[StreamState, int]]) -> None:
        self.users = sorted(users, key=lambda user: (user[0].band, user[0].index))
        if users:
            self.top_band = self.users[0][0].band
            self.last_band = self.users[-1][0].band
