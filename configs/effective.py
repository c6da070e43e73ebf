"""The effective configuration: every key with its value, as plain data and as YAML."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from edgepipe.configs.scalars import is_list, is_mapping, resolve
from edgepipe.configs.schema import Config
from edgepipe.configs.substitute import escape
from edgepipe.telemetry.environment import hide_credentials

_TEXT = "tag:yaml.org,2002:str"
_NEVER_FOLD = 10**6
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")


def effective(config: Config) -> dict[str, Any]:
    """JSON-able data with every default filled in; durations are text with units.

    Passwords in addresses are blanked out: it is written into every run's folder.
    """
    data = config.model_dump(mode="json", by_alias=True)
    for stream in data["streams"]:
        stream["source"]["uri"] = hide_credentials(stream["source"]["uri"])
    return data


def sha256(data: Mapping[str, Any]) -> str:
    """Hash that depends neither on the order of keys nor on the layout of the YAML."""
    canonical = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def dump_yaml(data: Mapping[str, Any]) -> str:
    """YAML that reads back to the same configuration with the same hash."""
    return yaml.dump(_escaped(data), Dumper=_Dumper, sort_keys=False, width=_NEVER_FOLD)


class _Dumper(yaml.SafeDumper):
    """Quotes every text but plain words, and never writes an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> yaml.ScalarNode:
    # A style of None lets PyYAML choose, which quotes what YAML 1.1 would not take as
    # text; what only our rules or YAML 1.2 take otherwise is quoted here.
    plain = _PLAIN.fullmatch(text) and isinstance(resolve(text), str)
    style = None if plain else '"'
    node: yaml.ScalarNode = dumper.represent_scalar(_TEXT, text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)


def _escaped(data: object) -> object:
    if isinstance(data, str):
        return escape(data)
    if is_mapping(data):
        return {key: _escaped(value) for key, value in data.items()}
    if is_list(data):
        return [_escaped(item) for item in data]
    return data
