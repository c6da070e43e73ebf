"""Which figure stands for the whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Channel, Kind, Quality, Reading, Scope
from edgepipe.telemetry.sensors.totals import Totals, choose_totals, scope_of
from tests.telemetry.boards import Files, hwmon, read_once, write

XAVIER = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
ORIN = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
THOR = ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0")

REPEATABLE = settings(derandomize=True, deadline=None)


def rail(name: str) -> Channel:
    return Channel(Kind.POWER, name, "ina3221 1-0040", scope_of(name))


def device(name: str, scope: Scope, kind: Kind = Kind.ENERGY) -> Channel:
    return Channel(kind, name, "test", scope)


def scopes(totals: Totals) -> list[Scope]:
    return [total.scope for total in totals.found]


def names(totals: Totals) -> list[str]:
    return ["+".join(each.name for each in total.channels) for total in totals.found]


@pytest.mark.parametrize(
    ("rails", "scope", "total"),
    [
        (("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"), Scope.MODULE_INPUT, "POM_5V_IN"),
        (("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), Scope.MODULE_INPUT, "VDD_IN"),
        ((*THOR, "VIN"), Scope.SYSTEM_INPUT, "VIN"),
        (XAVIER, Scope.RAIL_SUM, "+".join(XAVIER)),
        ((*ORIN, "VDDQ_VDD2_1V8AO"), Scope.RAIL_SUM, "+".join(ORIN)),
        (ORIN, Scope.RAIL_SUM, "+".join(ORIN)),
    ],
)
def test_each_board_has_its_rule(
    rails: tuple[str, ...], scope: Scope, total: str
) -> None:
    totals = choose_totals([rail(name) for name in rails])
    assert (scopes(totals), names(totals)) == ([scope], [total])
    assert totals.reason == ""


def test_the_rule_names_the_rails_and_what_is_part_of_them() -> None:
    (total,) = choose_totals([rail(n) for n in (*ORIN, "VDDQ_VDD2_1V8AO")]).found
    assert total.rule == (
        "AGX Orin: the sum of VDD_GPU_SOC, VDD_CPU_CV and VIN_SYS_5V0;"
        " VDDQ_VDD2_1V8AO is part of it"
    )


def test_carrier_and_module_are_two_figures_the_wider_first() -> None:
    rails = ("VDD_IN", "VDD_SYS_GPU", "VDD_SYS_CPU", "VDD_MUX", "VDD_5V0_IO_SYS")
    totals = choose_totals([rail(name) for name in rails])
    assert scopes(totals) == [Scope.SYSTEM_INPUT, Scope.MODULE_INPUT]
    assert names(totals) == ["VDD_MUX", "VDD_IN"]


@REPEATABLE
@given(st.permutations([*ORIN, "VDDQ_VDD2_1V8AO"]))
def test_the_order_of_rails_changes_nothing(rails: list[str]) -> None:
    assert names(choose_totals([rail(name) for name in rails])) == ["+".join(ORIN)]


@REPEATABLE
@given(st.sets(st.sampled_from([*XAVIER, *ORIN, *THOR, "VDD_IN", "VIN", "ODD"])))
def test_no_channel_is_counted_twice_and_a_lack_has_its_reason(
    rails: set[str],
) -> None:
    totals = choose_totals([rail(name) for name in sorted(rails)])
    for total in totals.found:
        assert len({each.name for each in total.channels}) == len(total.channels)
    assert totals.found or totals.reason
    if "VDD_IN" in rails or "VIN" in rails:
        assert Scope.RAIL_SUM not in scopes(totals)


def test_without_a_sensor_at_the_input_rails_are_parts() -> None:
    totals = choose_totals([rail(name) for name in THOR])
    assert totals.found == ()
    assert totals.reason.startswith("no sensor at the input: VDD_GPU, VDD_CPU_SOC_MSS")


def test_a_sum_that_lacks_a_rail_is_none() -> None:
    totals = choose_totals([rail(name) for name in XAVIER[:3]])
    assert totals == ((), "AGX Xavier: no sum without CV, VDDRQ and SYS5V")


def test_an_input_that_is_silent_is_not_replaced_by_a_sum() -> None:
    channels = [rail(name) for name in (*ORIN, "VDD_IN")]
    totals = choose_totals(channels, silent=[channels[-1]])
    assert names(totals) == ["VDD_IN"]
    assert totals.reason == "VDD_IN gives no value, and nothing else takes its place"


def test_rails_of_an_unknown_board_are_not_added_up() -> None:
    totals = choose_totals([rail("CVB_ATX_12V"), rail("CVB_ATX_5V")])
    assert totals.found == ()
    assert "CVB_ATX_12V and CVB_ATX_5V" in totals.reason


def test_packages_are_added_and_cores_are_in_them() -> None:
    totals = choose_totals(
        [
            device("package-0", Scope.CPU_PACKAGE),
            device("core-0", Scope.RAIL),
            device("package-1", Scope.CPU_PACKAGE),
            device("dram-0", Scope.MEMORY),
            device("psys", Scope.SYSTEM_INPUT),
        ]
    )
    assert names(totals) == ["psys", "package-0+package-1", "dram-0"]


def test_a_gpu_is_counted_by_its_energy_and_else_by_its_power() -> None:
    energy = device("gpu0", Scope.GPU_BOARD)
    power = device("gpu0", Scope.GPU_BOARD, Kind.POWER)
    both = choose_totals([energy, power])
    assert both.found[0].channels == (energy,)
    dead = choose_totals([energy, power], silent=[energy])
    assert dead.found[0].channels == (power,)
    assert dead.reason == ""


def test_gpus_that_share_no_kind_are_not_half_counted() -> None:
    channels = [
        device("gpu0", Scope.GPU_BOARD),
        device("gpu1", Scope.GPU_BOARD),
        device("gpu0", Scope.GPU_BOARD, Kind.POWER),
    ]
    totals = choose_totals(channels, silent=[channels[1]])
    assert totals.found[0].channels == tuple(channels[:2])
    assert "gpu1 gives no value" in totals.reason


def test_batteries_are_no_total() -> None:
    channels = [device(n, Scope.BATTERY, Kind.POWER) for n in ("BAT0", "BAT1")]
    assert choose_totals(channels) == ((), "nothing measures power")


# --- recorded failures ----------------------------------------------------------------


def recorded(case: Path, folder: Path) -> list[Reading]:
    """What a recorded folder of hwmon devices gives."""
    files: Files = {
        f"sys/class/hwmon/{path.relative_to(case)}": path.read_text().rstrip("\n")
        for path in case.rglob("hwmon*/*")
    }
    readings = read_once(find_board(write(files, folder).tree(), lambda: 0)).values()
    return [each for each in readings if each.channel.kind is Kind.POWER]


@pytest.mark.parametrize("board", ["nano", "xavier"])
def test_a_recorded_board_is_counted_once(
    cases: Path, tmp_path: Path, board: str
) -> None:
    expected = json.loads((cases / "E01/expected.json").read_text())[board]
    readings = recorded(cases / "E01" / board, tmp_path)
    watts = {each.channel.name: each.value or 0 for each in readings}
    (total,) = choose_totals([each.channel for each in readings]).found
    assert watts == pytest.approx(expected["parts_w"])
    assert sum(watts[each.name] for each in total.channels) == pytest.approx(
        expected["total_w"]
    )


@pytest.fixture
def units(cases: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((cases / "E02/expected.json").read_text())
    return document


@pytest.mark.parametrize("name", ["hwmon_uw", "hwmon_batt"])
def test_a_recorded_power_has_its_unit(
    cases: Path, units: dict[str, Any], tmp_path: Path, name: str
) -> None:
    (reading,) = recorded(cases / "E02" / name, tmp_path)
    assert reading.value == pytest.approx(units[f"{name}_w"])
    assert reading.quality is Quality.GOOD


def test_a_recorded_wrong_unit_is_found(
    cases: Path, units: dict[str, Any], tmp_path: Path
) -> None:
    (reading,) = recorded(cases / "E02/hwmon_mw_bug", tmp_path)
    expected = units["hwmon_mw_bug"]["cross_check_w"]
    assert reading.value == pytest.approx(expected)
    assert reading.quality is Quality.DOUBTFUL
    assert "unit doubtful" in reading.reason


def test_a_board_whose_numbers_changed_has_the_same_total(tmp_path: Path) -> None:
    files = {
        **hwmon(5, "ina3221", in1_label="GPU", in1_input=19_000, curr1_input=100,
                in2_label="CPU", in2_input=19_000, curr2_input=50,
                in3_label="SOC", in3_input=19_000, curr3_input=80),
        **hwmon(2, "ina3221", in1_label="CV", in1_input=19_000, curr1_input=10,
                in2_label="VDDRQ", in2_input=19_000, curr2_input=40,
                in3_label="SYS5V", in3_input=19_000, curr3_input=120),
        **hwmon(0, "ucsi_source_psy_USBC000:001", in0_input=20_000, curr1_input=3_000,
                power1_input=60_000_000),
    }  # fmt: skip
    readings = read_once(find_board(write(files, tmp_path).tree(), lambda: 0))
    (total,) = choose_totals([each.channel for each in readings.values()]).found
    watts = sum(readings[each.key].value or 0 for each in total.channels)
    assert watts == pytest.approx(7.6)
