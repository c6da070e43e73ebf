"""Entering a file in a model card that a person wrote; the rest stays as it is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from edgepipe.configs.card_text import scalar
from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.errors import ConfigError

_OWN = ("precision", "path", "sha256")


def with_file(path: Path, precision: str, file: str, sha256: str) -> str:
    """The text of a card in which a file is listed.

    The value of ``files`` is written anew, with one line for each file; comments inside
    it are lost, everything else keeps its place.

    Args:
        path: The card, one that can be read.
        precision: Of the file; an entry with this precision is replaced.
        file: Its path, relative to the card.
        sha256: Its hash.

    Raises:
        ConfigError: The card cannot be read, lists no files, or is written in a way
            that only its author can change.
    """
    text = read_bytes(path).decode("utf-8-sig")
    root = yaml.compose(text, yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    # A card in one pair of braces, such as JSON, has no lines of its own.
    is_braced = isinstance(root, yaml.MappingNode) and bool(root.flow_style)
    for key, value in pairs:
        if key.value == "files":
            old = [dict(_entry(each)) for each in value.value]
            new = {"precision": precision, "path": file, "sha256": sha256}
            files = [new, *(each for each in old if each["precision"] != precision)]
            begin, end = key.start_mark, _end(text, value)
            changed = _braced(files) if is_braced else _listed(files, begin.column)
            if "\r\n" in text:
                changed = changed.replace("\n", "\r\n")
            changed = text[: begin.index] + changed + text[end:]
            _require_same(text, changed, files, path)
            return changed
    raise ConfigError(shown(path), "files", "this key is required")


def _entry(node: yaml.Node) -> Iterator[tuple[str, Any]]:
    """Keys and values; those of a card as they are written: ``007`` is no number."""
    for key, value in node.value:
        if key.value not in _OWN:
            yield key.value, yaml.safe_load(yaml.serialize(value))
        elif value.tag != "tag:yaml.org,2002:null":
            yield key.value, value.value


def _end(text: str, node: yaml.Node) -> int:
    """Where a value ends; a block's own mark lies behind the comments after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return len(text[: node.end_mark.index].rstrip())


def _listed(files: Sequence[Mapping[str, Any]], indent: int) -> str:
    lines = [f"{' ' * indent}  - {_flow(each)}" for each in files]
    return "\n".join(["files:", *lines])


def _braced(files: Sequence[Mapping[str, Any]]) -> str:
    return f'"files": {json.dumps(files, ensure_ascii=False, default=str)}'


def _flow(entry: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{k}: {scalar(v)}' for k, v in entry.items())}}}"


def _require_same(
    before: str, after: str, files: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Refuse a text that says anything else than the one before, but for the files."""
    try:
        was, now = (yaml.load(text, yaml.BaseLoader) for text in (before, after))
        wanted = yaml.load("\n".join(map(_line, files)), yaml.BaseLoader)
        same = was | {"files": wanted} == now
    except yaml.YAMLError:
        same = False
    if not same:
        raise ConfigError(
            shown(path),
            "files",
            f"is written in a way that is not changed here: enter {_flow(files[0])}"
            f" yourself",
        )


def _line(entry: Mapping[str, Any]) -> str:
    return f"- {_flow(entry)}"
