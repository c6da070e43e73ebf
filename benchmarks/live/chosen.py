"""The scenarios that fit two cores, cut to the length of a round."""

from dataclasses import replace

from edgepipe.commands.scenario import load_scenario
from edgepipe.scheduler.scenario import Camera, Scenario, Stall

CHOSEN = ("quad-nominal", "overload", "stall-burst", "bimodal", "mixed-criticality")


def chosen(name: str, length_ns: int) -> Scenario:
    """The scenario of that name in ``length_ns``.

    What happens in it happens at the same part of its length, and takes as long as
    ever.
    """
    whole = load_scenario(name)
    cameras = tuple(
        _cut(camera, length_ns, whole.duration_ns) for camera in whole.cameras
    )
    return replace(whole, duration_ns=length_ns, cameras=cameras)


def _cut(camera: Camera, length_ns: int, whole_ns: int) -> Camera:
    def sooner(stall: Stall) -> Stall:
        start_ns = stall.start_ns * length_ns // whole_ns
        return Stall(start_ns, start_ns + stall.end_ns - stall.start_ns)

    return replace(camera, stalls=tuple(map(sooner, camera.stalls)))
