import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from edgepipe.configs import load, reference
from edgepipe.configs.json_schema import json_schema


@pytest.fixture(scope="module")
def validator() -> Any:
    """Checks data against the JSON Schema, as an editor would."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_reference_is_up_to_date(root: Path) -> None:
    written = (root / "docs/configuration.md").read_text(encoding="utf-8")
    assert written == reference.document()


def test_the_example_of_the_reference_is_accepted() -> None:
    config = load.parse(reference.EXAMPLE, "example.yaml").config
    assert [stream.deadline_ns for stream in config.streams] == [10**8, 15 * 10**8]


def test_the_reference_tells_of_every_key() -> None:
    document = reference.document()
    for key in ["deadline", "max_age", "stop_within", "codec", "overflow"]:
        assert f"| `{key}` |" in document
    assert "deadline_ns" not in document


@pytest.mark.parametrize("name", load.packaged())
def test_the_json_schema_accepts_every_packaged_config(
    name: str, validator: Any, root: Path
) -> None:
    as_typed = yaml.safe_load((root / f"configs/{name}.yaml").read_text())
    assert validator.is_valid(as_typed)
    assert validator.is_valid(load.read(name).effective)


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({"x-mine": {"anything": 1}}, True),
        ({"run": {"duration": "1m30s"}}, True),
        ({"run": {"duration": "${LENGTH:-1h}"}}, True),
        ({"run": {"duration": None}}, True),
        ({"tracker": {"min_hits": "${HITS}"}}, True),
        ({"sinks": [{"kind": None}]}, True),
        ({"sinks": [{"kind": "jsonl", "path": "a"}]}, True),
        ({"sinks": [{"kind": "jsonl"}]}, False),
        ({"run": {"duration": "1hr"}}, False),
        ({"run": {"duration": 33}}, False),
        ({"tracker": {"min_hits": 0}}, False),
        ({"modle": {}}, False),
        ({"streams": []}, False),
        ({"version": 2}, False),
    ],
)
def test_the_json_schema_draws_the_lines_of_the_loader(
    changes: dict[str, object], valid: bool, validator: Any
) -> None:
    base = {"version": 1, "streams": [{"id": "a", "source": {"uri": "x"}}]}
    assert validator.is_valid({**base, **changes}) is valid


def test_the_json_schema_shows_defaults_with_their_units() -> None:
    stream = json_schema()["$defs"]["StreamConfig"]["properties"]
    assert stream["deadline"]["default"] == "100ms"
    assert json.dumps(json_schema())
