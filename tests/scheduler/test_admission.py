from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.admission import admit
from edgepipe.scheduler.events import Admitted, Refused
from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    OnMiss,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.load import CHEAPEST, profiled

MS = 1_000_000
CRITICAL, NORMAL, BACKGROUND = Criticality
GPU = [Resource("gpu")]


def stream(
    name: str,
    cost_ms: float,
    period_ms: float = 20,
    deadline_ms: float = 20,
    criticality: Criticality = NORMAL,
) -> StreamSpec:
    step = Step("infer", "gpu", False, round(cost_ms * MS))
    return StreamSpec(
        name,
        (step,),
        criticality,
        deadline_ns=round(deadline_ms * MS),
        period_ns=round(period_ms * MS),
    )


def asked(
    candidate: StreamSpec,
    *admitted: StreamSpec,
    resources: Sequence[Resource] = GPU,
    clock_permille: int = 1000,
    batched: bool = True,
) -> Admitted | Refused:
    return admit(
        candidate,
        admitted,
        resources,
        profiled(CHEAPEST),
        {"gpu": clock_permille},
        batched=batched,
    )


def is_admitted(candidate: StreamSpec, *admitted: StreamSpec) -> bool:
    return asked(candidate, *admitted) == Admitted(candidate.id)


# --- utilisation ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost_ms", "criticality", "there", "utilisation"),
    [
        (10, NORMAL, NORMAL, 1000),  # all of it is not too much
        (10.1, NORMAL, NORMAL, 1005),
        (10.1, NORMAL, CRITICAL, 1005),
        (10.1, CRITICAL, NORMAL, 0),  # the lower one gives way
        (15, BACKGROUND, CRITICAL, 0),  # something is left
        (15, BACKGROUND, BACKGROUND, 0),
    ],
)
def test_a_stream_is_refused_if_those_that_matter_as_much_need_more_than_there_is(
    cost_ms: float, criticality: Criticality, there: Criticality, utilisation: int
) -> None:
    candidate = stream("new", cost_ms, criticality=criticality)
    answer = asked(candidate, stream("old", 10, criticality=there))
    refused = Refused("new", "gpu", utilisation, "")
    assert answer == (Admitted("new") if utilisation <= 1000 else refused)


def test_a_background_stream_needs_something_to_be_left_by_those_above_it() -> None:
    new = stream("new", 1, 1000, 1000, BACKGROUND)
    almost, all_of_it = stream("old", 19.5), stream("old", 20)
    others = [stream(f"{n}", 15, 1000, 1000, BACKGROUND) for n in range(99)]
    assert is_admitted(new, almost, *others)
    assert asked(new, all_of_it) == Refused("new", "gpu", 1001, "")


def test_a_second_slot_serves_as_many_again() -> None:
    streams = [stream(f"{n}", 10) for n in range(4)]
    two = [Resource("gpu", 2)]
    assert asked(streams[3], *streams[:3], resources=two) == Admitted("3")
    assert isinstance(
        asked(streams[0], *streams[1:], streams[1], resources=two), Refused
    )


def test_a_stream_is_judged_on_its_cheapest_rung() -> None:
    ladder = (Rung("full"), Rung("small", 850, (450,)))
    heavy = stream("old", 15)
    assert not is_admitted(stream("new", 10), heavy)
    assert is_admitted(replace(stream("new", 10), ladder=ladder), heavy)
    # So are those that are there: they can be moved down.
    assert is_admitted(stream("new", 10), replace(heavy, ladder=ladder))


def test_batches_make_room_where_deadlines_leave_time_for_them() -> None:
    def camera(name: str, deadline_ms: float) -> StreamSpec:
        step = Step("infer", "gpu", False, 10 * MS, "net", 2, (1000, 1600))
        return replace(stream(name, 10, deadline_ms=deadline_ms), steps=(step,))

    patient = [camera("a", 100), camera("b", 100), camera("c", 100)]
    assert is_admitted(patient[0], patient[1], stream("old", 3))
    assert not is_admitted(patient[0], camera("urgent", 31), stream("old", 3))
    assert isinstance(asked(*patient, batched=False), Refused)


def test_a_slower_clock_makes_every_job_longer() -> None:
    assert asked(stream("new", 5), stream("old", 5)) == Admitted("new")
    slow = asked(stream("new", 5), stream("old", 5), clock_permille=400)
    assert slow == Refused("new", "gpu", 1250, "")


def test_only_resources_that_the_stream_uses_can_refuse_it() -> None:
    dla = replace(stream("old", 99), steps=(Step("infer", "dla", False, 99 * MS),))
    both = [Resource("dla"), Resource("gpu")]
    assert asked(stream("new", 5), dla, resources=both) == Admitted("new")


@pytest.mark.parametrize(
    "candidate",
    [stream("new", 0), stream("new", 15, period_ms=0)],
    ids=["unknown cost", "unknown period"],
)
def test_nothing_is_held_against_a_stream_of_which_nothing_is_known(
    candidate: StreamSpec,
) -> None:
    full = stream("old", 20)
    assert is_admitted(candidate, full)
    assert is_admitted(full, candidate)


# --- its own deadline -----------------------------------------------------------------


def test_a_stream_that_is_slower_than_its_own_deadline_is_refused() -> None:
    slow = replace(
        stream("new", 6, 100, 10),
        steps=(
            Step("decode", "cpu", False, 5 * MS),
            Step("infer", "gpu", False, 6 * MS),
        ),
    )
    cpu = Resource("cpu", 2)
    answer = asked(slow, resources=[cpu, *GPU])
    assert answer == Refused("new", "gpu", 60, "new")
    in_time = replace(slow, deadline_ns=11 * MS)
    assert asked(in_time, resources=[cpu, *GPU]) == Admitted("new")


def test_late_results_may_take_as_long_as_they_take() -> None:
    slow = stream("new", 15, 20, 10)
    assert not is_admitted(slow)
    assert is_admitted(replace(slow, on_miss=OnMiss.DELIVER_LATE))


def test_track_only_frames_can_be_in_time_when_the_network_cannot() -> None:
    network = Step("infer", "gpu", False, 15 * MS, runs_on_track_only=False)
    track = Step("track", "gpu", False, MS)
    slow = replace(stream("new", 15, 20, 10), steps=(network, track))
    assert not is_admitted(slow)
    assert is_admitted(
        replace(slow, ladder=(Rung("full"), Rung("track", infer_every=2)))
    )


# --- blocking -------------------------------------------------------------------------

FRONT = stream("front", 5, 30, 20, CRITICAL)
"""Leaves gaps of 25 + 15 = 40 ms."""


@pytest.mark.parametrize(
    ("cost_ms", "criticality", "blocked_by"),
    [
        (40, BACKGROUND, None),
        (40.1, BACKGROUND, "front"),
        (40.1, NORMAL, "front"),
        (40.1, CRITICAL, None),  # not more important than it
    ],
)
def test_a_job_that_fits_in_no_gap_of_a_higher_stream_is_refused(
    cost_ms: float, criticality: Criticality, blocked_by: str | None
) -> None:
    long = stream("new", cost_ms, 1000, 1000, criticality)
    answer = asked(long, FRONT)
    assert answer == (
        Admitted("new")
        if blocked_by is None
        else Refused("new", "gpu", 167 + round(cost_ms + 0.4), blocked_by)
    )


def test_the_gap_is_shorter_by_the_steps_that_the_frame_still_has_ahead() -> None:
    ahead = Step("track", "cpu", True, 10 * MS)
    front = replace(FRONT, steps=(*FRONT.steps, ahead))
    resources = [*GPU, Resource("cpu")]
    for cost_ms, kind in ((30, Admitted), (30.1, Refused)):
        long = stream("new", cost_ms, 1000, 1000, BACKGROUND)
        assert isinstance(asked(long, front, resources=resources), kind)


def test_with_a_second_slot_nobody_is_blocked() -> None:
    long = stream("new", 500, 1000, 1000, BACKGROUND)
    assert asked(long, FRONT, resources=[Resource("gpu", 2)]) == Admitted("new")


def test_a_job_in_segments_blocks_no_longer_than_one_of_them() -> None:
    whole = stream("new", 80, 1000, 1000, BACKGROUND)
    half = Step("half", "gpu", False, 40 * MS)
    assert not is_admitted(whole, FRONT)
    assert is_admitted(replace(whole, steps=(half, half)), FRONT)


@pytest.mark.parametrize(
    ("contract", "longest_ms"),
    [(None, 40), (Contract(10, 10), 40), (Contract(9, 10), 70), (Contract(8, 10), 100)],
)
def test_a_stream_with_a_claim_to_service_may_cost_what_a_contract_allows(
    contract: Contract | None, longest_ms: float
) -> None:
    front = replace(FRONT, contract=contract)
    for cost_ms, fits in ((longest_ms, True), (longest_ms + 0.1, False)):
        patient = stream("new", cost_ms, 1000, 1000, BACKGROUND)
        claiming = replace(patient, min_service_ns=1000 * MS)
        assert is_admitted(claiming, front) == fits
        assert is_admitted(patient, front) == (cost_ms <= 40)


def test_a_normal_stream_without_a_contract_can_spare_one_frame() -> None:
    side = replace(FRONT, criticality=NORMAL)
    claiming = replace(
        stream("new", 70, 1000, 1000, BACKGROUND), min_service_ns=1000 * MS
    )
    assert is_admitted(claiming, side)


@pytest.mark.parametrize(
    "there",
    [
        replace(FRONT, deadline_ns=0),
        replace(FRONT, period_ns=0),
        replace(FRONT, deadline_ns=4 * MS),  # is late on an idle machine, too
    ],
    ids=["no deadline", "unknown period", "hopeless"],
)
def test_a_stream_that_has_nothing_to_lose_blocks_nobody(there: StreamSpec) -> None:
    assert is_admitted(stream("new", 500, 1000, 1000, BACKGROUND), there)


# --- properties -----------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn, name: str = "new") -> StreamSpec:
    batch = draw(st.integers(1, 4))
    step = Step(
        "infer",
        "gpu",
        False,
        draw(st.integers(0, 40)),
        "net",
        batch,
        (1000, 1600, 2200),
    )
    return StreamSpec(
        name,
        (Step("decode", "cpu", False, draw(st.integers(0, 10))), step),
        draw(st.sampled_from(Criticality)),
        deadline_ns=draw(st.integers(0, 120)),
        period_ns=draw(st.integers(0, 100)),
    )


OTHERS = st.lists(streams("old"), max_size=5)
BOTH = [Resource("cpu", 2), Resource("gpu")]


def answer(candidate: StreamSpec, admitted: Sequence[StreamSpec]) -> Admitted | Refused:
    return admit(candidate, admitted, BOTH, profiled(CHEAPEST), {})


@given(streams(), OTHERS, st.data())
def test_without_one_of_the_others_a_stream_is_not_refused_rather(
    candidate: StreamSpec, others: list[StreamSpec], data: st.DataObject
) -> None:
    if others and answer(candidate, others) == Admitted("new"):
        del others[data.draw(st.integers(0, len(others) - 1))]
        assert answer(candidate, others) == Admitted("new")


@given(streams(), OTHERS)
def test_the_order_of_the_others_decides_nothing(
    candidate: StreamSpec, others: list[StreamSpec]
) -> None:
    assert type(answer(candidate, others)) is type(answer(candidate, others[::-1]))


@given(streams(), OTHERS, st.integers(0, 1), st.integers(1, 50))
def test_a_cheaper_stream_is_not_refused_rather(
    candidate: StreamSpec, others: list[StreamSpec], which: int, less: int
) -> None:
    if answer(candidate, others) == Admitted("new"):
        steps = list(candidate.steps)
        cost_ns = max(0, steps[which].cost_ns - less)
        steps[which] = replace(steps[which], cost_ns=cost_ns)
        assert answer(replace(candidate, steps=tuple(steps)), others) == Admitted("new")


@given(streams(), OTHERS)
def test_a_less_important_stream_alone_changes_nothing(
    candidate: StreamSpec, others: list[StreamSpec]
) -> None:
    above = [o for o in others if o.criticality.band <= candidate.criticality.band]
    assert answer(candidate, others) == answer(candidate, above)
