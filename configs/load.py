"""From a name or a path to a checked configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from edgepipe.configs import overrides as command_line
from edgepipe.configs import rules, substitute
from edgepipe.configs.check import check, without_extensions
from edgepipe.configs.effective import dump_yaml, effective, sha256
from edgepipe.configs.problems import refuse
from edgepipe.configs.scalars import is_mapping
from edgepipe.configs.schema import Config
from edgepipe.configs.strict_yaml import parse as parse_yaml
from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.errors import ConfigError

__all__ = ["LoadedConfig", "dump_yaml", "packaged", "parse", "read"]

_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A checked configuration and what goes into the records of a run."""

    config: Config
    effective: Mapping[str, Any]
    """JSON-able data, every default filled in, durations with units."""
    sha256: str
    """Of the effective configuration in its canonical form."""
    origin: str
    """The path of the file, or ``packaged NAME``."""


def packaged() -> list[str]:
    """Names of the configurations that ship with edgepipe."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in files("edgepipe.configs").iterdir()
        if entry.name.endswith(".yaml")
    )


def read(
    name_or_path: str,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read a packaged configuration or a file.

    What contains a slash or ends in ``.yaml`` is a path; anything else is looked up
    among the packaged names first.

    Args:
        name_or_path: Which one.
        overrides: ``path=value`` texts as given to ``--set``, applied in order.
        env: Variables for ``${VAR}``; none by default.

    Raises:
        ConfigErrors: Everything that is wrong, in the order of the text.
        ConfigError: There is no such configuration or it cannot be read.
    """
    is_path = "/" in name_or_path or name_or_path.endswith(_ENDINGS)
    if not is_path and name_or_path in packaged():
        name = f"{name_or_path}.yaml"
        raw = files("edgepipe.configs").joinpath(name).read_bytes()
        return parse(raw, name, overrides, env, origin=f"packaged {name_or_path}")
    try:
        raw = read_bytes(name_or_path)
    except ConfigError as error:
        if is_path:
            raise
        known = f"the packaged configurations are {', '.join(packaged())}"
        raise ConfigError(error.where, "", f"{error.problem}; {known}") from error
    return parse(raw, shown(name_or_path), overrides, env)


def parse(
    source: bytes | str,
    name: str,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    origin: str | None = None,
) -> LoadedConfig:
    """Check the text of a configuration; ``name`` stands in front of every message.

    Raises:
        ConfigErrors: Everything that is wrong, in the order of the text.
    """
    document = parse_yaml(source, name)
    marks, problems = document.marks, list(document.problems)
    data = document.data
    if not is_mapping(data):
        refuse(problems)
    problems += command_line.apply(data, marks, overrides)
    known = without_extensions(data)
    filled, unset = substitute.fill(known, env or {}, marks)
    config, broken = check(Config, filled, marks)
    problems += unset
    told = {(problem.mark, problem.path) for problem in problems}
    problems += [
        problem for problem in broken if (problem.mark, problem.path) not in told
    ]
    problems += rules.check(filled, marks)
    if config is None or problems:
        refuse(problems)
    plain = effective(config)
    return LoadedConfig(config, plain, sha256(plain), origin or name)
