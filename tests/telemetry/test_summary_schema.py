from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from edgepipe.telemetry.nulls import Null, missing, nulls, present
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.run_facts import RunFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.summary import build_summary
from edgepipe.telemetry.summary_schema import load_schema, reference, validate

ROOT = Path(__file__).parents[2]

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


@pytest.fixture
def summary(make_run: MakeRun, make_frame: MakeFrame) -> dict[str, Any]:
    return build_summary(*make_run([make_frame(n) for n in range(300)]))


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, bool]]:
    for key, value in schema.get("properties", {}).items():
        yield f"{path}.{key}", "description" in value
        yield from described(value, f"{path}.{key}")
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        yield from described(cast("dict[str, Any]", values), f"{path}.*")


def test_the_schema_is_itself_valid() -> None:
    Draft202012Validator.check_schema(load_schema())


def test_every_key_has_a_description() -> None:
    schema = load_schema()
    keys = list(described(schema))
    for name, definition in schema["$defs"].items():
        keys += described(definition, name)
    assert [path for path, has_one in keys if not has_one] == []


def test_later_versions_may_add_keys_at_the_top(summary: dict[str, Any]) -> None:
    validate(summary | {"thermal_story": {"peak": 71}})


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("verdict", "MAYBE", "'MAYBE' is not one of"),
        ("duration_s", None, "None is not of type 'number'"),
        ("schema", "edgepipe.summary/2", "was expected"),
    ],
)
def test_a_wrong_value_is_refused(
    summary: dict[str, Any], key: str, value: object, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        validate(summary | {key: value})


def test_a_missing_key_is_refused(summary: dict[str, Any]) -> None:
    del summary["ledger"]
    with pytest.raises(ValueError, match="'ledger' is a required property"):
        validate(summary)


def test_a_null_without_a_reason_is_refused(summary: dict[str, Any]) -> None:
    summary["device"]["power"]["reason"] = ""
    with pytest.raises(
        ValueError, match=r"device\.power\.value: null without a reason"
    ):
        validate(summary)


def test_the_page_about_the_summary_is_the_one_that_the_schema_gives() -> None:
    page = (ROOT / "docs" / "summary.md").read_text(encoding="utf-8")
    assert page == reference(), (
        "write it anew: python -m edgepipe.telemetry.summary_schema"
    )


def test_nulls_are_found_at_any_depth_with_the_reason_beside_them() -> None:
    document = {
        "a": present(1),
        "b": missing("no sensor"),
        "c": {"d": {"x": None, "y": 0, "reason": "too few"}},
        "e": None,
    }
    assert list(nulls(document)) == [
        Null("b.value", "no sensor"),
        Null("c.d.x", "too few"),
        Null("e", ""),
    ]
