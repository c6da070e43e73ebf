"""The JSON Schema of ``summary.json``, its check, and its page for people."""

import importlib
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, cast

from edgepipe.telemetry.nulls import nulls


def load_schema() -> dict[str, Any]:
    """The schema that ships with the package (draft 2020-12)."""
    text = (
        files("edgepipe.telemetry").joinpath("summary_schema.json").read_text("utf-8")
    )
    schema: dict[str, Any] = json.loads(text)
    return schema


def validate(summary: Mapping[str, Any]) -> None:
    """Check a summary against the schema and the rule that nulls have reasons.

    For tests and tools: needs the ``jsonschema`` package, which an installation of
    edgepipe does not bring along.

    Raises:
        ValueError: It breaks a rule; the message names the first few places.
    """
    jsonschema: Any = importlib.import_module("jsonschema")
    validator = jsonschema.Draft202012Validator(load_schema())
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


def reference() -> str:
    """The schema as a Markdown page: one table row for every key."""
    schema = load_schema()
    lines = [
        "# summary.json",
        "",
        "<!-- Written by `python -m edgepipe.telemetry.summary_schema`; edit the"
        " descriptions in telemetry/summary_schema.json instead. -->",
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

    sys.stdout.write(reference())
