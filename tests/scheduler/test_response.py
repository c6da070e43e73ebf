from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.scheduler.job import Criticality, Resource, Step, StreamSpec
from edgepipe.scheduler.load import profiled
from edgepipe.scheduler.response import response_bounds

MS = 1_000_000
CRITICAL, NORMAL, BACKGROUND = Criticality
NAMES = ("a", "b", "c")

Order = Callable[[int, int], int]
"""The next job of a band: the least number for its deadline and arrival."""
ORDERS: Mapping[str, Order] = {
    "deadline": lambda deadline, _: deadline,
    "arrival": lambda _, arrival: arrival,
    "freshest": lambda _, arrival: -arrival,
}


def stream(
    name: str,
    *steps: tuple[str, int],
    period: int = 100,
    criticality: Criticality = NORMAL,
    stateful: bool = False,
) -> StreamSpec:
    """Steps are (resource, cost)."""
    return StreamSpec(
        name,
        tuple(
            Step(f"{i}", where, stateful, cost) for i, (where, cost) in enumerate(steps)
        ),
        criticality,
        deadline_ns=1000,
        period_ns=period,
    )


def bounds(*streams: StreamSpec, slots: int = 1) -> dict[str, tuple[int, ...] | None]:
    return response_bounds(
        streams, [Resource(name, slots) for name in NAMES], profiled()
    )


# --- a reference: every frame is played -----------------------------------------------


class Frame:
    def __init__(self, spec: StreamSpec, arrival: int, index: int) -> None:
        self.spec, self.arrival, self.index = spec, arrival, index
        self.step = 0
        self.running = False
        self.ends: list[int] = []


def played(
    arrivals: Mapping[str, Sequence[int]],
    streams: Sequence[StreamSpec],
    slots: Mapping[str, int],
    order: Order,
    cost: Callable[[StreamSpec, int], int],
) -> dict[str, list[list[int]]]:
    """Time from arrival to the end of each step, of each frame of each stream."""
    frames = [
        Frame(spec, arrival, index)
        for spec in streams
        for index, arrival in enumerate(arrivals[spec.id])
    ]
    free = dict(slots)
    events = [(frame.arrival, -1) for frame in frames]
    events.sort()
    here: list[Frame] = []
    coming = sorted(frames, key=lambda frame: frame.arrival)
    while events:
        now, _ = events[0]
        while events and events[0][0] == now:
            _, ended = heappop(events)
            if ended >= 0:
                frame = frames[ended]
                free[frame.spec.steps[frame.step].resource] += 1
                frame.running = False
                frame.step += 1
                frame.ends.append(now - frame.arrival)
        while coming and coming[0].arrival <= now:
            here.append(coming.pop(0))
        here = [frame for frame in here if frame.step < len(frame.spec.steps)]
        for frame in sorted(here, key=lambda frame: _key(frame, order)):
            step = frame.spec.steps[frame.step]
            if free[step.resource] and not frame.running and not _held(frame, here):
                free[step.resource] -= 1
                frame.running = True
                ends = now + cost(frame.spec, frame.step)
                heappush(events, (ends, frames.index(frame)))
    return {
        spec.id: [frame.ends for frame in frames if frame.spec is spec]
        for spec in streams
    }


def _key(frame: Frame, order: Order) -> tuple[int, int]:
    deadline = frame.arrival + frame.spec.deadline_ns
    return frame.spec.criticality.band, order(deadline, frame.arrival)


def _held(frame: Frame, here: Sequence[Frame]) -> bool:
    return frame.spec.steps[frame.step].stateful and any(
        other.spec is frame.spec
        and other.index < frame.index
        and other.step <= frame.step
        for other in here
    )


# --- tables ---------------------------------------------------------------------------


def test_a_frame_alone_takes_its_own_time() -> None:
    assert bounds(stream("s", ("a", 3), ("b", 6), ("c", 2))) == {"s": (3, 9, 11)}


def test_on_one_slot_a_frame_waits_for_one_of_each_other_stream() -> None:
    found = bounds(stream("s", ("a", 3)), stream("t", ("a", 4)), stream("u", ("a", 5)))
    assert found == {"s": (12,), "t": (12,), "u": (12,)}


def test_a_frame_waits_for_one_that_has_begun_below_it_and_not_for_others() -> None:
    found = bounds(
        stream("front", ("a", 3), criticality=CRITICAL),
        stream("map", ("a", 20), criticality=BACKGROUND),
        stream("log", ("a", 30), criticality=BACKGROUND),
    )
    assert found["front"] == (29 + 3,)
    assert found["map"] == found["log"] == (53,)


def test_waiting_at_one_resource_brings_frames_closer_together_at_the_next() -> None:
    chain = stream("s", ("a", 10), ("b", 30))
    other = stream("t", ("a", 35))
    slow = stream("u", ("b", 40))
    # The frame of s comes to b up to 35 late, so two of them come within 70.
    assert bounds(chain, other, slow)["s"] == (45, 45 + 100)


def test_with_as_many_slots_as_streams_nobody_waits() -> None:
    found = bounds(stream("s", ("a", 50)), stream("t", ("a", 5)), slots=2)
    assert found == {"s": (50,), "t": (5,)}


def test_four_cameras_share_two_decoders() -> None:
    cameras = [stream(name, ("a", 4)) for name in "stuv"]
    # Three frames go first at most: six of work for each slot.
    assert set(bounds(*cameras, slots=2).values()) == {(10,)}


def test_four_cameras_on_the_machine_of_the_reference_keep_50_ms() -> None:
    names = (("nvdec", 3), ("vic", 1), ("gpu", 6), ("cpu", 2))
    cameras = [
        stream(name, *((where, cost * MS) for where, cost in names), period=33 * MS)
        for name in "stuv"
    ]
    machine = [
        Resource("nvdec", 2),
        Resource("vic"),
        Resource("gpu"),
        Resource("cpu", 2),
    ]
    found = response_bounds(cameras, machine, profiled())
    assert set(found.values()) == {(7_500_000, 11_500_000, 35_500_000, 44_500_000)}


def test_no_bound_is_known_when_more_is_asked_for_than_there_is() -> None:
    found = bounds(
        stream("front", ("a", 40), criticality=CRITICAL),
        stream("side", ("a", 60)),
        stream("map", ("b", 1), criticality=BACKGROUND),
    )
    assert found == {"front": (40 + 59,), "side": None, "map": None}


def test_no_bound_is_known_when_frames_may_pile_up_before_a_stateful_step() -> None:
    def camera(stateful: bool) -> StreamSpec:
        return stream("s", ("a", 60), stateful=stateful)

    other = stream("t", ("a", 100), period=300)
    assert bounds(camera(stateful=False), other)["s"] == (280,)
    assert bounds(camera(stateful=True), other)["s"] is None


def test_no_bound_is_known_for_a_frame_that_64_later_ones_may_catch_up() -> None:
    quick = stream("s", ("a", 1), period=2)
    slow = stream("t", ("a", 49_999), period=100_000)
    assert bounds(quick, slow) == {"s": None, "t": None}


@pytest.mark.parametrize("slots", [1, 2])
def test_a_bound_that_grows_too_slowly_is_given_up(slots: int) -> None:
    nearly_full = [
        stream(f"{n}", ("a", 999), period=2000, criticality=CRITICAL)
        for n in range(2 * slots)
    ]
    long = stream("map", ("a", 10**6), period=10**9, criticality=BACKGROUND)
    assert bounds(*nearly_full, long, slots=slots)["0"] is None


@pytest.mark.parametrize(("period", "cost"), [(0, 5), (100, 0)])
def test_a_bound_needs_periods_and_costs(period: int, cost: int) -> None:
    with pytest.raises(ValueError, match="stream 's': a bound needs its period"):
        bounds(stream("s", ("a", cost), period=period))


# --- against every frame of a simulation ----------------------------------------------


@st.composite
def workloads(draw: st.DrawFn) -> list[StreamSpec]:
    found: list[StreamSpec] = []
    for index in range(draw(st.integers(1, 5))):
        period = draw(st.integers(8, 60))
        steps = [
            (draw(st.sampled_from(NAMES)), draw(st.integers(1, max(1, period // 4))))
            for _ in range(draw(st.integers(1, 3)))
        ]
        criticality = draw(st.sampled_from(Criticality))
        stateful = draw(st.booleans())
        found.append(
            stream(f"s{index}", *steps, period=period, criticality=criticality,
                   stateful=stateful)
        )  # fmt: skip
    return found


def sporadic(spec: StreamSpec, random: Random) -> list[int]:
    arrivals = [random.randrange(spec.period_ns)]
    while arrivals[-1] < 300:
        late = random.randrange(spec.period_ns) if random.random() < 0.2 else 0
        arrivals.append(arrivals[-1] + spec.period_ns + late)
    return arrivals


@pytest.mark.parametrize("order", ORDERS)
@given(
    streams=workloads(),
    slots=st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(1, 3))),
    seed=st.integers(0, 2**32),
    varies=st.booleans(),
)
@settings(deadline=None)
def test_no_frame_takes_longer_than_the_bound(
    order: str,
    streams: list[StreamSpec],
    slots: dict[str, int],
    seed: int,
    varies: bool,
) -> None:
    random = Random(seed)
    most = profiled()

    def least(spec: StreamSpec, step: int) -> int:
        return (most(spec, step) + 1) // 2 if varies else most(spec, step)

    def cost(spec: StreamSpec, step: int) -> int:
        return random.randint(least(spec, step), most(spec, step))

    resources = [Resource(name, n) for name, n in slots.items()]
    found = response_bounds(streams, resources, most, least)
    arrivals = {spec.id: sporadic(spec, random) for spec in streams}
    seen = played(arrivals, streams, slots, ORDERS[order], cost)
    for name, bound in found.items():
        if bound is not None:
            worst = [max(ends) for ends in zip(*seen[name], strict=True)]
            assert all(w <= b for w, b in zip(worst, bound, strict=True))
