"""The JSON Schemas of ``summary.json``, their check, and their pages for people."""

import importlib
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, cast

from edgepipe.telemetry.nulls import nulls

KINDS = {"summary": "summary.json", "simulation": "summary.json of a simulation"}
"""What there are schemas of, and the titles of their pages."""


def load_schema(kind: str = "summary") -> dict[str, Any]:
    """One of the schemas that ship with the package (draft 2020-12)."""
    path = files("edgepipe.telemetry").joinpath(f"{kind}_schema.json")
    text = path.read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def validate(summary: Mapping[str, Any], kind: str = "summary") -> None:
    """Check a summary against its schema and the rule that nulls have reasons.

    For tests and tools: needs the ``jsonschema`` package, which an installation of
    edgepipe does not bring along.

    Raises:
        ValueError: It breaks a rule; the message names the first few places.
    """
    jsonschema: Any = importlib.import_module("jsonschema")
    validator = jsonschema.Draft202012Validator(load_schema(kind))
    problems = [
        f"{error.json_path}: {error.message}"
        for error in validator.iter_errors(dict(summary))
    ]
    problems += [
        f"{null.path}: null without a reason"
        for null in nulls(summary)
        if not null.reason
    ]
    if problems:
        raise ValueError("not a valid summary: " + "; ".join(problems[:5]))


def reference(kind: str = "summary") -> str:
    """A schema as a Markdown page: one table row for every key."""
    schema = load_schema(kind)
    command = "python -m edgepipe.telemetry.summary_schema"
    lines = [
        f"# {KINDS[kind]}",
        "",
        f"<!-- Written by `{command if kind == 'summary' else f'{command} {kind}'}`;"
        f" edit the descriptions in telemetry/{kind}_schema.json instead. -->",
        "",
        schema["description"],
        "",
        *_table(schema),
    ]
    for name, definition in schema["$defs"].items():
        lines += ["", f"## {name}", "", definition["description"], ""]
        lines += _table(definition)
    return "\n".join(lines) + "\n"


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | type | meaning |"
    yield "| --- | --- | --- |"
    yield from _rows(schema, "")


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in schema.get("properties", {}).items():
        if key != "reason":  # the same everywhere, told once at the top of the page
            yield from _row(f"{prefix}{key}", value)
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and prefix:
        yield from _rows(cast("Mapping[str, Any]", values), f"{prefix}*.")


def _row(path: str, value: Mapping[str, Any]) -> Iterator[str]:
    meaning = value.get("description", "").replace("|", "\\|")
    yield f"| `{path}` | {_type(value)} | {meaning} |"
    yield from _rows(value, f"{path}.")


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(
            "null" if each is None else str(each) for each in value["enum"]
        )
    if isinstance(value.get("additionalProperties"), dict):
        return f"object of {_type(value['additionalProperties'])}"
    kinds = value.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference(*sys.argv[1:]))
