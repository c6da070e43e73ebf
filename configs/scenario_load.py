"""From a name or a path to a checked scenario."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from edgepipe.configs.check import check, without_extensions
from edgepipe.configs.effective import sha256
from edgepipe.configs.problems import Marks, Path, Problem, refuse
from edgepipe.configs.scenario_schema import CameraEntry, ScenarioConfig
from edgepipe.configs.strict_yaml import parse as parse_yaml
from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.errors import ConfigError

_ENDINGS = (".yaml", ".yml")
_FOLDER = "scenarios"


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A checked scenario and what goes into the records of a simulation."""

    name: str
    config: ScenarioConfig
    effective: Mapping[str, Any]
    """JSON-able data, every default filled in, durations with units."""
    sha256: str
    """Of the effective scenario in its canonical form."""


def packaged() -> list[str]:
    """Names of the scenarios that ship with edgepipe."""
    folder = files("edgepipe.configs").joinpath(_FOLDER)
    names = [entry.name for entry in folder.iterdir()]
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml"))


def read(name_or_path: str) -> LoadedScenario:
    """Read a packaged scenario or a file; a file's name is that of its scenario.

    What contains a slash or ends in ``.yaml`` is a path; anything else is looked up
    among the packaged names first.

    Raises:
        ConfigErrors: Everything that is wrong, in the order of the text.
        ConfigError: There is no such scenario or it cannot be read.
    """
    is_path = "/" in name_or_path or name_or_path.endswith(_ENDINGS)
    if not is_path and name_or_path in packaged():
        place = files("edgepipe.configs").joinpath(_FOLDER, f"{name_or_path}.yaml")
        return parse(place.read_bytes(), f"{name_or_path}.yaml")
    try:
        raw = read_bytes(name_or_path)
    except ConfigError as error:
        if is_path:
            raise
        known = f"the packaged scenarios are {', '.join(packaged())}"
        raise ConfigError(error.where, "", f"{error.problem}; {known}") from error
    return parse(raw, shown(name_or_path))


def parse(source: bytes | str, name: str) -> LoadedScenario:
    """Check the text of a scenario; ``name`` stands in front of every message.

    Raises:
        ConfigErrors: Everything that is wrong, in the order of the text.
    """
    document = parse_yaml(source, name)
    data, marks = without_extensions(document.data), document.marks
    problems = list(document.problems)
    if data is None:
        refuse(problems)
    config, broken = check(ScenarioConfig, data, marks)
    problems += broken
    if config is not None:
        problems += _rules(config, marks)
    if config is None or problems:
        refuse(problems)
    plain = config.model_dump(mode="json", by_alias=True)
    short = name.rpartition("/")[2].removesuffix(".yml").removesuffix(".yaml")
    return LoadedScenario(short, config, plain, sha256(plain))


def stream_ids(id_: str, count: int | None) -> list[str]:
    """The names of an entry's streams."""
    return [id_] if count is None else [f"{id_}-{number}" for number in range(count)]


def _rules(config: ScenarioConfig, marks: Marks) -> Iterator[Problem]:
    """Rules that span several values."""
    for path, text in _broken(config):
        yield Problem(marks.value(path), path, text)


Broken = Iterator[tuple[Path, str]]


def _broken(config: ScenarioConfig) -> Broken:
    resources = [entry.name for entry in config.resources]
    yield from _once(
        [(("resources", n, "name"), name) for n, name in enumerate(resources)]
    )
    streams = {
        name: entry
        for entry in config.streams
        for name in stream_ids(entry.id, entry.count)
    }
    yield from _once(
        [
            (("streams", index, "id"), name)
            for index, entry in enumerate(config.streams)
            for name in stream_ids(entry.id, entry.count)
        ]
    )
    for index, entry in enumerate(config.streams):
        yield from _camera(entry, ("streams", index), resources)
    yield from _mishaps(config, streams, resources)


def _camera(entry: CameraEntry, path: Path, resources: list[str]) -> Broken:
    """What one stream's keys ask of each other."""
    yield from _once(
        [((*path, "steps", n, "name"), s.name) for n, s in enumerate(entry.steps)]
    )
    yield from _once(
        [((*path, "ladder", n, "name"), r.name) for n, r in enumerate(entry.ladder)]
    )
    for number, step in enumerate(entry.steps):
        place: Path = (*path, "steps", number)
        if step.resource not in resources:
            yield (*place, "resource"), _unknown("resource", step.resource, resources)
        if (step.time_ns is None) == (not step.replay):
            yield place, "expected one of time and replay"
        if step.batch and step.stateful:
            yield (*place, "batch"), "a stateful step cannot run as a batch"
    pieces = sum(step.segments for step in entry.steps)
    if entry.queue.steps > pieces:
        yield (*path, "queue", "steps"), f"there are only {pieces} steps"
    if entry.min_service_ns is not None and entry.criticality != "background":
        text = f"only a background stream can have one, this one is {entry.criticality}"
        yield (*path, "min_service"), text
    if entry.jitter_ns * entry.fps >= 10**9:
        yield (*path, "jitter"), "it must be less than the time between two frames"
    if entry.ends_ns is not None and entry.ends_ns <= entry.starts_ns:
        yield (*path, "ends"), "it must come after starts"


def _mishaps(
    config: ScenarioConfig, streams: dict[str, CameraEntry], resources: list[str]
) -> Broken:
    """Whether everything that happens happens to something that is there."""
    steps = [step.name for entry in streams.values() for step in entry.steps]
    for key in ("clocks", "pauses"):
        for index, entry in enumerate(getattr(config, key)):
            if entry.resource not in resources:
                text = _unknown("resource", entry.resource, resources)
                yield (key, index, "resource"), text
    for key in ("stalls", "stamps", "failures"):
        for index, entry in enumerate(getattr(config, key)):
            if entry.stream not in streams:
                text = _unknown("stream", entry.stream, [*streams])
                yield (key, index, "stream"), text
    for key in ("surges", "stamps", "pauses"):
        for index, entry in enumerate(getattr(config, key)):
            if entry.end_ns <= entry.start_ns:
                yield (key, index, "to"), "it must come after from"
    for index, surge in enumerate(config.surges):
        if surge.step not in steps:
            text = _unknown("step", surge.step, [*dict.fromkeys(steps)])
            yield ("surges", index, "step"), text
    for index, failure in enumerate(config.failures):
        stream = streams.get(failure.stream)
        known = [step.name for step in stream.steps] if stream else []
        if stream and failure.step not in known:
            yield ("failures", index, "step"), _unknown("step", failure.step, known)
    for index, stamp in enumerate(config.stamps):
        if bool(stamp.ahead_ns) == bool(stamp.behind_ns):
            yield ("stamps", index), "expected one of ahead and behind"


def _once(names: list[tuple[Path, str]]) -> Broken:
    seen: set[str] = set()
    for path, name in names:
        if name in seen:
            yield path, f"{name!r} is given twice"
        seen.add(name)


def _unknown(noun: str, name: str, known: list[str]) -> str:
    return f"no {noun} {name!r} here, there are {', '.join(known)}"
