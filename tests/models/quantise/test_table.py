"""Calibrations on disk: used again only for the same question."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.errors import ModelError
from edgepipe.models.quantise.histogram import Histogram
from edgepipe.models.quantise.statistics import Statistics, load, save
from edgepipe.models.quantise.table import (
    CalibrationKey,
    CalibrationTable,
    read_table,
    reusable,
)

KEY = CalibrationKey("a" * 64, "b" * 64, "c" * 64, 100, "mse", "onnxruntime 1.32.0")
RANGES = {"images": 2.5, "conv": 1e-3}
TABLE = CalibrationTable(KEY, RANGES, {"images": -2.0, "conv": 0.0}, "yard.mp4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    TABLE.write(tmp_path / "x.calibration.json")
    return tmp_path / "x.calibration.json"


def test_a_table_is_read_as_it_was_written(path: Path) -> None:
    assert read_table(path) == TABLE
    assert reusable(path, KEY) == (TABLE, "")


@pytest.mark.parametrize("name", [each.name for each in fields(CalibrationKey)])
def test_a_table_is_not_used_when_anything_of_its_key_differs(
    path: Path, name: str
) -> None:
    before = path.read_bytes()
    other: Any = 101 if name == "images" else "d" * 64
    changed: Any = {name: other}
    table, why = reusable(path, replace(KEY, **changed))
    assert table is None
    assert name.replace("_", " ") in why
    assert str(getattr(KEY, name))[:12] in why
    assert str(other)[:12] in why
    assert path.read_bytes() == before, "reading changed the file"


def test_all_differences_are_told_at_once(path: Path) -> None:
    _, why = reusable(path, replace(KEY, method="minmax", tools="onnxruntime 1.20"))
    assert "method is mse, now minmax" in why
    assert "tools is onnxruntime 1.32.0, now onnxruntime 1.20" in why


def test_no_table_is_no_difference(tmp_path: Path) -> None:
    assert reusable(tmp_path / "none.json", KEY) == (None, "")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"schema": "edgepipe.calibration/9"}', '"text"', "null"],
)
def test_a_damaged_table_is_told_and_never_used(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ModelError, match="no calibration table"):
        read_table(path)
    table, why = reusable(path, KEY)
    assert table is None
    assert path.name in why


def test_a_table_cut_short_anywhere_is_never_used(path: Path) -> None:
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert reusable(path, KEY)[0] is None


def test_a_table_that_cannot_be_written_leaves_the_old_one(path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written"):
        TABLE.write(path / "below" / "a-file.json")
    assert read_table(path) == TABLE
    assert json.loads(path.read_text())["schema"] == "edgepipe.calibration/1"


def counted() -> Statistics:
    one, other = Histogram(), Histogram()
    one.add(np.linspace(-1, 3, 50, dtype=np.float32))
    other.add(np.zeros(4, np.float32))
    return Statistics(12, {"one": one, "other": other})


def test_statistics_go_on_where_they_were(tmp_path: Path) -> None:
    save(tmp_path / "part.npz", "key", counted())
    found = load(tmp_path / "part.npz", "key")
    assert found is not None
    assert found.images == 12
    for name, histogram in counted().histograms.items():
        again = found.histograms[name]
        assert (again.limit, again.largest) == (histogram.limit, histogram.largest)
        assert again.lowest == histogram.lowest
        assert np.array_equal(again.counts, histogram.counts)


def test_statistics_of_something_else_or_damaged_are_none(tmp_path: Path) -> None:
    path = tmp_path / "part.npz"
    assert load(path, "key") is None
    save(path, "key", counted())
    assert load(path, "another") is None
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        assert load(path, "key") is None
