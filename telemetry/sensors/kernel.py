"""All that the kernel's own files tell about the device."""

from collections.abc import Callable

from edgepipe.telemetry.sensors.batteries import find_batteries
from edgepipe.telemetry.sensors.clocks import find_clocks
from edgepipe.telemetry.sensors.fan import find_fan
from edgepipe.telemetry.sensors.gauges import Names
from edgepipe.telemetry.sensors.hwmon import find_hwmon
from edgepipe.telemetry.sensors.iio import find_iio
from edgepipe.telemetry.sensors.memory import find_memory
from edgepipe.telemetry.sensors.overcurrent import find_overcurrent
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.thermal import find_thermal
from edgepipe.telemetry.sensors.tree import Tree


def find_board(tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    """Sensors of power, clocks, load, heat, cooling, events, fans and memory.

    No name of a channel comes twice, and an order or a number of devices that changes
    at the next boot changes no name. Counters of energy (RAPL) are not among them.

    Args:
        tree: The machine.
        now_ns: The monotonic clock.
    """
    names = Names()
    return [
        *find_iio(tree, now_ns, names),
        *find_hwmon(tree, now_ns, names),
        *find_batteries(tree, now_ns, names),
        *find_clocks(tree, now_ns, names),
        *find_thermal(tree, now_ns, names),
        *find_overcurrent(tree, now_ns, names),
        *find_fan(tree, now_ns, names),
        *find_memory(tree, now_ns),
    ]
