"""Entering a file in a model card that a person wrote; the rest stays as it is."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from edgepipe.configs.textfile import read_bytes, shown
from edgepipe.errors import ConfigError


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
        ConfigError: The card cannot be read, or lists no files.
    """
    text = read_bytes(path).decode("utf-8-sig")
    root = yaml.compose(text, yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == "files":
            files: list[dict[str, str]] = yaml.safe_load(
                _dedented(text, value.start_mark, value.end_mark)
            )
            begin = text.rfind("\n", 0, key.start_mark.index) + 1
            kept = [each for each in files if each["precision"] != precision]
            entry = {"precision": precision, "path": file, "sha256": sha256}
            written = "\n".join(_line(each) for each in [entry, *kept])
            rest = text[value.end_mark.index :].lstrip("\n")
            return f"{text[:begin]}files:\n{written}\n{rest}"
    raise ConfigError(shown(path), "files", "this key is required")


def _dedented(text: str, start: yaml.Mark, end: yaml.Mark) -> str:
    """The value as a document of its own: what stands before it becomes blanks."""
    return " " * start.column + text[start.index : end.index]


def _line(entry: Mapping[str, str]) -> str:
    values = ", ".join(f"{name}: {_scalar(value)}" for name, value in entry.items())
    return f"  - {{{values}}}"


def _scalar(value: str) -> str:
    """As it must be written to be the same text again."""
    plain = yaml.safe_dump(str(value), default_flow_style=True, width=10_000)
    return plain.removesuffix("...\n").strip()
