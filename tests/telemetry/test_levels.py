import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.device_facts import Level
from edgepipe.telemetry.levels import LevelMeter
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, no_reading

CLOCK = Channel(Kind.CLOCK, "cpu0", "cpufreq")


def metered(*values: tuple[int, float | None], window: tuple[int, int]) -> Level | None:
    meter = LevelMeter()
    meter.begin(window[0])
    for at_ns, value in values:
        meter.add(
            no_reading(CLOCK, at_ns, "gated")
            if value is None
            else Reading(CLOCK, value, at_ns)
        )
    meter.end(window[1])
    return meter.level()


def test_a_value_holds_until_the_next_one() -> None:
    level = metered((0, 10.0), (30, 20.0), window=(0, 40))
    assert level == Level(mean=12.5, low=10.0, high=20.0, readings=2)


def test_time_without_a_value_does_not_count() -> None:
    level = metered((0, 10.0), (10, None), (90, 30.0), window=(0, 100))
    assert level == Level(mean=20.0, low=10.0, high=30.0, readings=2)


def test_a_value_of_before_the_window_reaches_into_it() -> None:
    assert metered((0, 8.0), window=(50, 60)) == Level(8.0, 8.0, 8.0, 0)


def test_what_comes_before_and_after_the_window_is_not_in_it() -> None:
    level = metered((0, 99.0), (10, 5.0), (30, 77.0), window=(10, 30))
    assert level is not None
    assert (level.mean, level.low) == (5.0, 5.0)


@pytest.mark.parametrize("values", [[], [(5, None)], [(5, None), (50, None)]])
def test_without_a_value_there_is_no_level(
    values: list[tuple[int, float | None]],
) -> None:
    assert metered(*values, window=(0, 100)) is None


def test_readings_after_the_end_change_nothing() -> None:
    meter = LevelMeter()
    meter.begin(0)
    meter.add(Reading(CLOCK, 1.0, 0))
    meter.end(10)
    meter.add(Reading(CLOCK, 100.0, 20))
    assert meter.level() == Level(1.0, 1.0, 1.0, 1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000),
            st.none() | st.floats(0, 1e9),
        ),
        min_size=1,
    )
)
def test_the_mean_lies_between_the_lowest_and_the_highest(
    values: list[tuple[int, float | None]],
) -> None:
    level = metered(*sorted(values, key=lambda v: v[0]), window=(100, 900))
    if level is not None:
        assert level.low <= level.mean * (1 + 1e-12)
        assert level.mean <= level.high * (1 + 1e-12)
