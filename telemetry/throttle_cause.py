"""What can hold a clock down."""

from enum import Enum


class Cause(Enum):
    """Why a part runs below its full clock, or may do so."""

    THERMAL = "thermal"
    UNDER_VOLTAGE = "under_voltage"
    """The supply sags: the adapter or the cable is too weak."""
    POWER_CAP = "power_cap"
    """Average power or current reached its limit."""
    OVER_CURRENT = "over_current"
    """Current reached its limit for an instant; the hardware halves clocks for a
    millisecond."""
    CLOCK_FLOOR_LOST = "clock_floor_lost"
    """Clocks were pinned when the run began and are no longer."""
    UNKNOWN = "unknown"
    """The clock is low under load, and nothing that can be read says why."""
    POWER_MODE_CAP = "power_mode_cap"
    """The power mode allows less than the hardware can do."""
    SETTING = "setting"
    """Somebody set a lower clock in the driver."""
    DVFS_IDLE = "dvfs_idle"
    """There is little to do."""
    GATED = "gated"
    """The part is switched off while it has nothing to do."""
    NOT_OBSERVABLE = "not_observable"
    """The clock is low, and whether there was load to do cannot be read."""

    @property
    def throttles(self) -> bool:
        """Whether it takes speed from work; else it only explains a low clock."""
        return self in _THROTTLING


_THROTTLING = frozenset(
    {
        Cause.THERMAL,
        Cause.UNDER_VOLTAGE,
        Cause.POWER_CAP,
        Cause.OVER_CURRENT,
        Cause.CLOCK_FLOOR_LOST,
        Cause.UNKNOWN,
    }
)
