"""JSON Schema of the configuration, for editors and other tools."""

from typing import Any

from edgepipe.configs.scalars import is_list, is_mapping
from edgepipe.configs.schema import Config

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLE = "edgepipe configuration"
_EXTENSIONS = {"^x-": {"description": "Yours: edgepipe does not look at it."}}
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?\}"}
_ANNOTATIONS = ("description", "default")


def json_schema() -> dict[str, Any]:
    """The schema of a whole configuration, in JSON Schema 2020-12.

    It tells what one value may be. The loader checks more: rules between values, such
    as unique ids, and the text itself, such as duplicate keys.
    """
    # Only in this mode are defaults written as in YAML; the rules are the same in both.
    schema = _finished(Config.model_json_schema(by_alias=True, mode="serialization"))
    return {"$schema": _DIALECT, **schema, "title": _TITLE}


def _finished(node: Any) -> Any:
    """Without pydantic's titles; with ``x-`` keys and ``${VAR}`` where they may be."""
    if is_list(node):
        return [_finished(inner) for inner in node]
    if not is_mapping(node):
        return node
    finished: dict[str, Any] = {
        key: _finished(inner) for key, inner in node.items() if key != "default"
    }
    if isinstance(finished.get("title"), str):
        del finished["title"]
    if "default" in node:
        finished["default"] = node["default"]
    if is_mapping(properties := finished.get("properties")):
        finished["properties"] = {
            key: inner if key == "kind" else _or_reference(inner)
            for key, inner in properties.items()
        }
        finished["patternProperties"] = _EXTENSIONS
    return finished


def _or_reference(value: Any) -> dict[str, Any]:
    """A scalar's schema that also takes text with a ``${VAR}`` in it."""
    single = value.get("type") not in ("array", "object") and "$ref" not in value
    if not single or (value.get("type") == "string" and "pattern" not in value):
        return dict(value)
    about = {key: value[key] for key in _ANNOTATIONS if key in value}
    rule = {key: inner for key, inner in value.items() if key not in _ANNOTATIONS}
    return {**about, "anyOf": [*rule.get("anyOf", [rule]), _REFERENCE]}
