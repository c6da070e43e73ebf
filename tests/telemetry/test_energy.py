"""Sums of rails and joules per frame."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.energy import Energy, Method, add_energies, per_frame
from edgepipe.telemetry.sensors.reading import Channel, Kind, Scope
from edgepipe.telemetry.sensors.totals import Total

S = 1_000_000_000

GPU, CPU, SYS = (
    Channel(Kind.POWER, name, "ina3221", Scope.RAIL, tau_s=0.0)
    for name in ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
)
VIN = Channel(Kind.POWER, "VIN", "ina238", Scope.SYSTEM_INPUT, tau_s=0.0)
PACKAGE = Channel(Kind.ENERGY, "package-0", "RAPL", Scope.CPU_PACKAGE)
SUM = Total(Scope.RAIL_SUM, (GPU, CPU, SYS), "the three inputs of the module")


def measured(channel: Channel, watts: float | None, error_pct: float = 1.0) -> Energy:
    """Ten seconds of it."""
    return Energy(
        channels=(channel,),
        scope=channel.scope,
        method=Method.TRAPEZOID,
        start_ns=0,
        end_ns=10 * S,
        joules=None if watts is None else 10 * watts,
        mean_w=watts,
        coverage=1.0,
        samples=470,
        rate_hz=47.0,
        longest_gap_s=0.02,
        tau_s=0.0,
        correction_j=0.0,
        error_pct=None if watts is None else error_pct,
        reason="" if watts is not None else "gated",
    )


def test_rails_of_a_total_are_added_and_so_are_their_errors() -> None:
    rails = [measured(GPU, 4.0), measured(CPU, 3.0, 2.0), measured(SYS, 3.0)]
    total = add_energies(SUM, rails)
    assert total.joules == pytest.approx(100)
    assert total.mean_w == pytest.approx(10)
    assert total.scope is Scope.RAIL_SUM
    assert total.channels == (GPU, CPU, SYS)
    assert total.error_pct == pytest.approx(1.3)
    assert total.quality == "good"


def test_a_total_is_as_good_as_its_worst_rail() -> None:
    bad = replace(measured(CPU, 3.0), coverage=0.5, samples=9, low=("holes",))
    total = add_energies(SUM, [measured(GPU, 4.0), bad, measured(SYS, 3.0)])
    assert (total.coverage, total.samples, total.low) == (0.5, 9, ("holes",))


def test_a_total_without_one_rail_is_not_measured() -> None:
    total = add_energies(SUM, [measured(GPU, 4.0), measured(SYS, 3.0)])
    assert (total.joules, total.mean_w, total.error_pct) == (None, None, None)
    assert total.reason == "VDD_CPU_CV was not measured"


def test_a_total_with_one_rail_without_a_figure_says_why() -> None:
    rails = [measured(GPU, None), measured(CPU, 3.0), measured(SYS, 3.0)]
    assert add_energies(SUM, rails).reason == "VDD_GPU_SOC: gated"


def test_a_total_of_one_channel_is_that_channel() -> None:
    single = measured(VIN, 19.78)
    total = Total(Scope.SYSTEM_INPUT, (VIN,), "VIN, the board's input")
    assert add_energies(total, [measured(GPU, 4.0), single]) is single


def test_rails_that_are_no_part_of_the_total_are_left_out() -> None:
    extra = Channel(Kind.POWER, "VDDQ_VDD2_1V8AO", "ina3221", Scope.RAIL)
    rails = [measured(channel, 3.0) for channel in (GPU, CPU, SYS, extra)]
    assert add_energies(SUM, rails).mean_w == pytest.approx(9)


@pytest.mark.parametrize("other", [VIN, PACKAGE])
def test_two_scopes_are_never_added(other: Channel) -> None:
    mixed = Total(Scope.RAIL_SUM, (GPU, other), "a mistake")
    with pytest.raises(ValueError, match="different scopes"):
        add_energies(mixed, [measured(GPU, 4.0), measured(other, 20.0)])


def test_two_windows_are_never_added() -> None:
    later = replace(measured(CPU, 3.0), start_ns=1)
    with pytest.raises(ValueError, match="different windows"):
        add_energies(SUM, [measured(GPU, 4.0), later, measured(SYS, 3.0)])


def test_a_frame_costs_the_energy_of_the_window_by_completed_frames() -> None:
    frame = per_frame(measured(VIN, 12.0, 2.0), 300, measured(VIN, 6.0, 3.0))
    assert frame.gross_j == pytest.approx(0.4)
    assert frame.gross_error_pct == pytest.approx(2)
    assert frame.idle_w == 6
    assert frame.net_j == pytest.approx(0.2)
    assert frame.net_error_pct == pytest.approx(5)
    assert (frame.reason, frame.net_reason) == ("", "")


def test_no_frame_has_no_price() -> None:
    frame = per_frame(measured(VIN, 12.0), 0, measured(VIN, 6.0))
    assert (frame.gross_j, frame.net_j) == (None, None)
    assert frame.reason == "no frame was completed in the window"


def test_without_idle_power_there_is_no_net_figure() -> None:
    frame = per_frame(measured(VIN, 12.0), 300)
    assert frame.gross_j == pytest.approx(0.4)
    assert (frame.net_j, frame.net_reason) == (None, "idle power was not measured")


def test_idle_power_of_another_scope_is_not_taken_off() -> None:
    frame = per_frame(measured(VIN, 12.0), 300, measured(GPU, 4.0))
    assert (frame.net_j, frame.idle_w) == (None, None)
    assert frame.net_reason == "idle power was measured with another scope"


def test_idle_power_without_a_figure_says_why() -> None:
    frame = per_frame(measured(VIN, 12.0), 300, measured(VIN, None))
    assert (frame.net_j, frame.net_reason) == (None, "idle power: gated")


def test_a_negative_net_within_the_error_is_kept_and_said() -> None:
    frame = per_frame(measured(VIN, 6.0, 2.0), 100, measured(VIN, 6.1, 2.0))
    assert frame.net_j == pytest.approx(-0.01)
    assert frame.net_reason == (
        "run and idle differ by -0.1 W, less than the error 0.17 W"
    )


def test_an_idle_that_drew_more_than_the_run_is_doubted() -> None:
    frame = per_frame(measured(VIN, 6.0), 100, measured(VIN, 9.0))
    assert frame.net_j == pytest.approx(-0.3)
    assert frame.net_reason == "idle drew 3 W more than the run: was it idle?"


def test_a_doubtful_idle_power_makes_the_net_figure_doubtful() -> None:
    idle = replace(measured(VIN, 6.0), low=("only 50 % of the window was measured",))
    frame = per_frame(measured(VIN, 12.0), 300, idle)
    assert frame.net_j == pytest.approx(0.2)
    assert frame.net_reason == "idle power: only 50 % of the window was measured"


def test_an_energy_that_was_not_measured_gives_its_reason() -> None:
    frame = per_frame(measured(VIN, None), 100, measured(VIN, 6.0))
    assert (frame.gross_j, frame.reason) == (None, "gated")


def test_frames_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="-1 frames"):
        per_frame(measured(VIN, 6.0), -1)


@given(watts=st.lists(st.one_of(st.none(), st.floats(-1, 50)), min_size=3, max_size=3))
def test_a_missing_rail_never_counts_as_zero(watts: list[float | None]) -> None:
    rails = [measured(c, w) for c, w in zip(SUM.channels, watts, strict=True)]
    total = add_energies(SUM, rails)
    known = [w for w in watts if w is not None]
    if len(known) < 3:
        assert total.joules is None
    else:
        assert total.joules == pytest.approx(10 * sum(known), abs=1e-9)
