"""Which optional packages are there; none of them is loaded."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from edgepipe.telemetry.machine.finding import Area, Finding, Level
from edgepipe.telemetry.sensors.tree import Tree

ENGINES: Mapping[str, tuple[str, ...]] = {
    "openvino": ("openvino",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "tensorrt": ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"),
    "torch": ("torch",),
}
"""Module and the distributions that bring it."""
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "PyNvVideoCodec": ("PyNvVideoCodec",),
    "gi": ("PyGObject",),
    "pynvml": ("nvidia-ml-py",),
    "jtop": ("jetson-stats",),
}
THERE = "installed"
"""What stands for a version that nobody tells."""

_found = partial(Finding, Area.SOFTWARE)


@dataclass(frozen=True, slots=True)
class Software:
    """Versions of what is installed, by module."""

    engines: Mapping[str, str]
    optional: Mapping[str, str]
    nvidia_driver: str | None
    """Its version line; None: no such driver is loaded."""


def installed(module: str, distributions: tuple[str, ...]) -> str | None:
    """The version of a module that could be imported; None: it could not."""
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):
        return None
    versions = filter(None, map(_version, distributions))
    return next(versions, THERE)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def examine_software(
    tree: Tree, find: Callable[[str, tuple[str, ...]], str | None] = installed
) -> Software:
    """Ask what is there."""

    def those(names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        found = {module: find(module, wheels) for module, wheels in names.items()}
        return {module: text for module, text in found.items() if text}

    driver = tree.text("proc/driver/nvidia/version")
    first = driver.splitlines()[0] if driver else None
    return Software(those(ENGINES), those(OPTIONAL), first)


def judge_software(facts: Software) -> Iterator[Finding]:
    """What the packages mean for a run."""
    yield _engines(facts.engines)
    yield from _nvidia(facts)
    if "jtop" in facts.optional:
        text = f"jetson-stats {facts.optional['jtop']}"
        yield _found("jetson-stats", Level.OK, text)
    if "gi" in facts.optional:
        text = f"PyGObject {facts.optional['gi']}, for csi: cameras"
        yield _found("GStreamer", Level.OK, text)


def _engines(engines: Mapping[str, str]) -> Finding:
    if not engines:
        return _found(
            "engines",
            Level.PROBLEM,
            "none",
            "no network can be run",
            "pip install openvino",
        )
    named = ", ".join(f"{name} {text}" for name, text in engines.items())
    return _found("engines", Level.OK, named)


def _nvidia(facts: Software) -> Iterator[Finding]:
    nvml = facts.optional.get("pynvml")
    decoder = facts.optional.get("PyNvVideoCodec")
    if facts.nvidia_driver and not nvml:
        yield _found(
            "NVML",
            Level.WARNING,
            "an NVIDIA driver is loaded, and nvidia-ml-py is not installed",
            "power, clocks and throttling of the GPU are not measured",
            "pip install 'edgepipe[nvidia]'",
        )
    elif nvml:
        yield _found("NVML", Level.OK, f"nvidia-ml-py {nvml}")
    if decoder:
        yield _found("decoder", Level.OK, f"PyNvVideoCodec {decoder}")
