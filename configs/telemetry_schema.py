"""What is kept of a run, and how the device is watched."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from edgepipe.configs.kinds import (
    choice,
    duration,
    file_path,
    frequency,
    or_null,
    switch,
    whole,
)
from edgepipe.configs.section import Section

SensorChoice = Literal["auto", "none", "jtop", "tegrastats"]


class SensorsConfig(Section):
    """How the device is watched (docs/energy.md, docs/device.md)."""

    kind: Annotated[SensorChoice, choice(get_args(SensorChoice))] = Field(
        default="auto",
        description="`auto`: what the kernel shows, and NVIDIA's library; `none`: no"
        " sensor is read; `jtop`, `tegrastats`: these in place of the kernel's files.",
    )
    rate_hz: Annotated[float | None, or_null(frequency(0.1, 1000))] = Field(
        default=None,
        alias="rate",
        description="How often power is read; null: 47Hz, moved a little where that"
        " would beat with a frame rate. Clocks are read ten times a second and"
        " temperatures once.",
    )
    idle_ns: Annotated[int | None, or_null(duration(zero=True))] = Field(
        default=None,
        alias="idle",
        description="How long idle power is measured, with everything loaded and"
        " before the first frame, if there is a power sensor; null: 5s in a `bench`"
        " and not at all otherwise.",
    )
    require_power: Annotated[bool, switch()] = Field(
        default=False,
        description="Whether a run without a power figure for all of its measured part"
        " is INVALID.",
    )
    root: Annotated[str, file_path()] = Field(
        default="/",
        description="Below which folder `sys`, `proc`, `etc` and `var` are read: those"
        " of the host, mounted in a container.",
    )


class TelemetryConfig(Section):
    """What is kept of a run."""

    dir: Annotated[str, file_path()] = Field(
        default="runs",
        description="Folder in which every run makes its own folder; a relative path"
        " is relative to the directory in which edgepipe was started.",
    )
    samples: Annotated[int, whole(100, 10_000_000)] = Field(
        default=131_072,
        description="Samples kept of each measured time, the newest; 8 bytes each,"
        " three times for a stream and twice for a stage.",
    )
    sensors: SensorsConfig = Field(
        default=SensorsConfig(), description="How power, heat and clocks are read."
    )
