"""``edgepipe model bench``, from the command line to its figures."""

import json
from typing import Any

import pytest

from edgepipe.cli import main


def bench(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["model", "bench", "scene-tiny", "--seconds", "0.2", *args]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module", autouse=True)
def short_ceilings() -> Any:
    """The large product runs once: what comes of it is looked at elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgepipe.models.ceiling.LEAST_NS", 0)
        patch.setattr("edgepipe.models.ceiling.RUNS", 1)
        yield


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_the_rows_of_trtexec_are_there_and_nothing_is_zero(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = json.loads(bench(capsys, "--json", "--engine", engine, "--batch", "2"))
    rows = facts["rows_ms"]
    assert sorted(rows) == ["compute", "d2h", "enqueue", "h2d", "latency"]
    for name in ("latency", "enqueue", "compute"):
        assert 0 < rows[name]["min"] <= rows[name]["median"] <= rows[name]["max"]
    for name in ("h2d", "d2h"):
        assert rows[name]["median"] is None
        assert "nothing is copied" in rows[name]["reason"]
    assert rows["enqueue"]["median"] < rows["latency"]["median"]
    assert facts["images_per_s"] > 0
    assert (facts["batch"], facts["engine"]) == (2, engine)


def test_the_roofline_is_the_least_time_by_the_time_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = json.loads(bench(capsys, "--json"))
    roofline = facts["roofline"]
    assert facts["executed_precision"].startswith("int8")
    assert roofline["int8_share"] > 0.99
    least_ms = roofline["gop_per_image"] / roofline["ceiling_gops"]["int8"] * 1e3
    assert roofline["least_ms"] == pytest.approx(least_ms, rel=0.05)
    took_ms = facts["rows_ms"]["compute"]["median"]
    assert roofline["fraction"] == pytest.approx(roofline["least_ms"] / took_ms, 0.01)


def test_a_network_of_fp32_is_measured_against_fp32(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = bench(capsys, "--precision", "fp32")
    for part in (
        "Throughput: ",
        "Latency: min = ",
        "H2D Latency: not measured (the network runs where",
        "GOP an image, 0% of them INT8",
        "Ceiling: fp32 ",
        "Roofline fraction: ",
    ):
        assert part in text
    assert "int8 " not in text.split("Ceiling")[1].split("\n")[0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--batch", "0"), "--batch: expected 1 to 256, got 0"),
        (("--seconds", "0"), "--seconds: expected 0.01 to 3600, got 0.0"),
        (("--threads", "-1"), "--threads: expected 1 to 1024, got -1"),
        (("--precision", "fp16"), "has no 'fp16' file"),
        (("--engine", "tflite"), "unknown engine 'tflite'"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "bench", "scene-tiny", *args]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
