from collections.abc import Sequence
from dataclasses import replace
from math import isclose, sqrt
from typing import Any

import pytest

from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Resource, Rung, Step, StreamSpec
from edgepipe.scheduler.scenario import (
    Camera,
    ClockStep,
    Failure,
    Phases,
    Scenario,
    ServiceModel,
    Slow,
    Stall,
    Surge,
    scaled,
)
from edgepipe.scheduler.workload import (
    draw_frames,
    fails,
    failure_key,
    lognormal,
    mix,
    rung_costs,
    trace,
)

MS = 1_000_000
SECOND = 1000 * MS
WORK = Step("work", "gpu", stateful=False)


def camera(
    model: ServiceModel | None = None, name: str = "cam", **changes: Any
) -> Camera:
    """Ten frames a second, 6 ms each, without jitter."""
    spec = StreamSpec(name, (WORK,), deadline_ns=50 * MS)
    plain = Camera(spec, (model or ServiceModel(6 * MS),), 10_000)
    return replace(plain, **changes)


def scenario(*cameras: Camera, seconds: int = 1) -> Scenario:
    return Scenario("test", seconds * SECOND, (Resource("gpu"),), cameras)


def costs(model: ServiceModel, seconds: int = 100, seed: int = 1) -> list[int]:
    """What the step takes of each frame; ten frames a second."""
    drawn = draw_frames(scenario(camera(model), seconds=seconds), 0, seed)
    return [frame.cost_ns[0] for frame in drawn]


def arrivals(one: Camera, seconds: int = 1, seed: int = 1) -> list[tuple[int, int]]:
    """Capture and arrival of each frame in milliseconds."""
    drawn = draw_frames(scenario(one, seconds=seconds), 0, seed)
    return [(f.capture_ns // MS, f.arrival_ns // MS) for f in drawn]


def test_a_camera_captures_at_its_rate_until_the_scenario_ends() -> None:
    assert arrivals(camera()) == [(100 * n, 100 * n) for n in range(10)]


def test_a_rate_that_does_not_divide_a_second_does_not_drift() -> None:
    (*_, last) = draw_frames(scenario(camera(frame_rate=30_000), seconds=60), 0, 1)
    assert (last.sequence, last.capture_ns) == (1799, 59_966_666_666)


def test_a_camera_has_its_own_beginning_and_end() -> None:
    one = camera(starts_ns=200 * MS, ends_ns=500 * MS, phase_ns=30 * MS)
    assert arrivals(one) == [(n, n) for n in (230, 330, 430)]


def test_the_seed_moves_the_phase_and_delays_the_arrivals_within_bounds() -> None:
    one = camera(phase_spread_ns=9 * MS, jitter_ns=4 * MS)
    drawn = [list(draw_frames(scenario(one), 0, seed)) for seed in range(50)]
    phases = [frames[0].capture_ns for frames in drawn]
    delays = [f.arrival_ns - f.capture_ns for frames in drawn for f in frames]
    assert 0 <= min(phases) < MS
    assert 8 * MS < max(phases) <= 9 * MS
    assert 0 <= min(delays) < MS // 2
    assert 3.5 * MS < max(delays) <= 4 * MS


def test_what_is_captured_in_a_stall_arrives_in_a_burst_at_its_end() -> None:
    one = camera(stalls=(Stall(250 * MS, 610 * MS),))
    late = [(300, 610), (400, 610), (500, 610), (600, 610)]
    assert arrivals(one)[2:8] == [(200, 200), *late, (700, 700)]


def test_a_frame_never_overtakes_an_older_one() -> None:
    one = camera(stalls=(Stall(250 * MS, 300 * MS),), jitter_ns=90 * MS)
    moments = [arrival for _, arrival in arrivals(one, seconds=10)]
    assert moments == sorted(moments)


def test_a_constant_time_is_constant() -> None:
    assert set(costs(ServiceModel(6 * MS))) == {6 * MS}


def test_lognormal_times_keep_the_mean_and_have_the_spread() -> None:
    drawn = costs(ServiceModel(6 * MS, sigma_permille=50), seconds=1000)
    mean = sum(drawn) / len(drawn)
    deviation = sqrt(sum((each - mean) ** 2 for each in drawn) / len(drawn))
    assert isclose(mean, 6 * MS, rel_tol=0.002)
    assert isclose(deviation / mean, 0.05, rel_tol=0.03)


def test_the_lognormal_table_is_the_same_everywhere() -> None:
    table = lognormal(50)
    assert len(table) == 4096
    assert sum(table) == 4_095_999_988
    assert [table[n] for n in (0, 1, 2048, -1)] == [831382, 843575, 998766, 1199814]


def test_bimodal_times_have_a_second_mode_of_the_given_share() -> None:
    drawn = costs(ServiceModel(6 * MS, slow=Slow(80, 4000)), seconds=1000)
    assert {*drawn} == {6 * MS, 24 * MS}
    assert 700 < drawn.count(24 * MS) < 900


def test_a_surge_concerns_the_frames_captured_in_it() -> None:
    surge = Surge(200 * MS, 400 * MS, 1500)
    drawn = costs(ServiceModel(6 * MS, surges=(surge,)), seconds=1)
    assert drawn == [n * MS for n in (6, 6, 9, 9, 6, 6, 6, 6, 6, 6)]


def test_slow_phases_last_several_frames_and_hit_all_streams_alike() -> None:
    model = ServiceModel(6 * MS, phases=Phases(500 * MS, 300, 3000))
    both = scenario(camera(model, "a"), camera(model, "b"), seconds=60)
    drawn = [[f.cost_ns[0] for f in draw_frames(both, n, 1)] for n in (0, 1)]
    assert drawn[0] == drawn[1]
    assert {tuple({*drawn[0][n : n + 5]}) for n in range(0, 600, 5)} == {
        (6 * MS,),
        (18 * MS,),
    }
    assert 100 < drawn[0].count(18 * MS) < 260


def test_measured_times_are_replayed_in_turn() -> None:
    drawn = costs(ServiceModel(replay_ns=(5 * MS, 7 * MS, 6 * MS)), seconds=1)
    assert [each // MS for each in drawn] == [5, 7, 6, 5, 7, 6, 5, 7, 6, 5]


def test_factors_multiply() -> None:
    surge = Surge(0, SECOND, 2000)
    model = ServiceModel(6 * MS, slow=Slow(1000, 4000), surges=(surge, surge))
    assert {*costs(model, seconds=1)} == {96 * MS}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    model = ServiceModel(6 * MS, sigma_permille=50)
    assert costs(model) == costs(model)
    assert costs(model) != costs(model, seed=2)


def test_a_stream_more_changes_nothing_for_the_others() -> None:
    noisy = ServiceModel(6 * MS, sigma_permille=50)
    alone = scenario(camera(noisy, "a", jitter_ns=MS))
    joined = scenario(camera(noisy, "a", jitter_ns=MS), camera(noisy, "b"))
    assert list(draw_frames(alone, 0, 1)) == list(draw_frames(joined, 0, 1))
    assert costs_of(joined, 0) != costs_of(joined, 1)


def costs_of(of: Scenario, index: int) -> list[int]:
    return [frame.cost_ns[0] for frame in draw_frames(of, index, 1)]


def test_a_trace_holds_every_frame_in_order_of_arrival_with_its_costs_by_rung() -> None:
    ladder = (Rung("full"), Rung("small", 850, (450,)))
    spec = StreamSpec("a", (WORK,), deadline_ns=50 * MS, weight=4, ladder=ladder)
    late = camera(name="b", phase_ns=50 * MS)
    frames = trace(scenario(replace(late, spec=spec), camera(name="c")), 1)
    assert [frame.stream for frame in frames[:4]] == ["c", "a", "c", "a"]
    assert len(frames) == 20
    first = frames[1]
    assert (first.capture_ns, first.deadline_ns) == (50 * MS, 100 * MS)
    assert (first.weight, first.cost_ns) == (4, ((6 * MS,), (2_700_000,)))


def test_frames_that_arrive_together_come_in_the_order_of_the_streams() -> None:
    frames = trace(scenario(camera(name="b"), camera(name="a")), 1)
    assert [frame.stream for frame in frames[:4]] == ["b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("cost", "permille", "expected"),
    [((7, 9), (), (7, 9)), ((1000, 9), (450, 1000), (450, 9)), ((1,), (1,), (1,))],
)
def test_a_rung_scales_each_step_and_no_work_is_free(
    cost: tuple[int, ...], permille: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert rung_costs(cost, Rung("r", cost_permille=permille)) == expected


def test_scaling_rounds_down_and_never_to_nothing() -> None:
    assert (scaled(999, 500), scaled(999, 500, 500), scaled(1, 1)) == (499, 249, 1)


def test_failures_have_their_share_and_depend_on_all_that_they_belong_to() -> None:
    def share(key: int, step: int) -> Sequence[bool]:
        return [fails(key, n, step, 100) for n in range(5000)]

    key = failure_key(1, 0)
    assert 400 < sum(share(key, 0)) < 600
    assert share(key, 0) != share(key, 1) != share(failure_key(1, 1), 1)


def test_the_hash_is_the_finaliser_of_splitmix64() -> None:
    # The first outputs of the reference generator seeded with 0 and 1.
    assert (mix(0), mix(1)) == (0xE220A8397B1DCDAF, 0x910A2DEC89025CC1)


def test_a_damaged_picture_is_dropped_and_other_failures_are_failures() -> None:
    assert Failure(0, Reason.DAMAGED).fate is Fate.DROPPED
    assert Failure(0, Reason.BAD_OUTPUT).fate is Fate.FAILED


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"service": ()}, "every step needs a service model"),
        ({"frame_rate": 0}, "frame_rate must be positive"),
        ({"jitter_ns": 100 * MS}, "jitter must be less than a period"),
        ({"spec": StreamSpec("cam", (WORK,))}, "needs a deadline"),
    ],
)
def test_a_camera_that_cannot_be_played_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        camera(**changes)


def test_a_scenario_knows_its_names() -> None:
    with pytest.raises(ValueError, match="given twice"):
        scenario(camera(), camera())
    with pytest.raises(ValueError, match="unknown 'dla'"):
        replace(scenario(camera()), clock_steps=(ClockStep(0, "dla", 500),))


def test_models_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 ns"):
        ServiceModel()
    with pytest.raises(ValueError, match="must not be negative"):
        ServiceModel(1, sigma_permille=-1)
    with pytest.raises(ValueError, match="need a length"):
        Phases(0, 1, 1)
    with pytest.raises(ValueError, match="must be positive"):
        ClockStep(0, "gpu", 0)
