"""A plan is judged by its record, before anything loads it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.dla import DlaPlacement
from edgepipe.models.tensorrt.plan import PlanFacts, judge, read_facts, record

ORIN = PlanFacts(
    trt="10.3.0",
    sm=("87",),
    device="Orin",
    cuda="12.6",
    library="tensorrt",
    model_sha256="aa",
    calib_sha256="bb",
    precision="int8 (37 of 37 layers)",
    input={"images": [1, 3, 320, 416]},
    options={"dla_core": None},
)


def test_a_plan_fits_what_it_was_built_for() -> None:
    judgement = judge(ORIN, ORIN)
    assert (judgement.load, judgement.refusals, judgement.warnings) == (True, (), ())


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ({"trt": "10.3.0.1"}, "for TensorRT version 10.3.0, this machine has 10.3.0.1"),
        ({"sm": ("86",)}, "for compute capability 87, this machine has 86"),
        ({"cuda": "13.0"}, "for CUDA version 12, this machine has 13"),
        (
            {"library": "tensorrt_rtx"},
            "for library tensorrt, this machine has tensorrt_",
        ),
        ({"model_sha256": "cc"}, "from a model with sha256 aa, now it is cc"),
        ({"calib_sha256": "cc"}, "from a calibration with sha256 bb, now it is cc"),
        (
            {"precision": "fp32"},
            "from precision int8 .37 of 37 layers., now it is fp32",
        ),
        ({"input": {"x": [1]}}, r"from input {.images.: .*}, now it is {.x.: \[1\]}"),
        ({"options": {"dla_core": 0}}, "options {.dla_core.: null}, now it is .* 0}"),
    ],
)
def test_a_plan_for_something_else_is_refused_with_both_values(
    here: dict[str, Any], words: str
) -> None:
    judgement = judge(ORIN, replace(ORIN, **here))
    assert not judgement.load
    message = judgement.message("x.plan", "edgepipe model build x")
    assert message.endswith("rebuild it here with 'edgepipe model build x'")
    assert message.startswith("x.plan: it was built")
    with pytest.raises(EngineError, match=words):
        raise EngineError(message)


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ({"device": "Orin NX"}, "for device model Orin, this machine has Orin NX"),
        ({"cuda": "12.2"}, "a driver for CUDA 12.6, this machine's is for 12.2"),
    ],
)
def test_a_plan_that_only_may_be_slow_is_warned_of(
    here: dict[str, Any], words: str
) -> None:
    judgement = judge(ORIN, replace(ORIN, **here))
    assert judgement.load
    message = judgement.message("x.plan", "make")
    assert words in message
    assert "it may be slow" in message


def test_a_plan_for_several_generations_fits_each_of_them() -> None:
    rtx = replace(ORIN, sm=("80", "86", "89"), device=None)
    assert judge(rtx, replace(ORIN, sm=("89",), device="L4")).load
    assert not judge(rtx, replace(ORIN, sm=("90",))).load


@pytest.mark.parametrize("lost", [{"trt": None}, {"sm": ()}])
def test_a_record_that_says_too_little_is_no_record(lost: dict[str, Any]) -> None:
    assert not judge(replace(ORIN, **lost), ORIN).load


def test_recorded_hosts_load_refuse_or_warn(cases: Path) -> None:
    folder = cases / "C01"
    built = read_facts(folder / "engine.meta.json")
    for host in json.loads((folder / "hosts.json").read_text()):
        here = PlanFacts(trt=host["trt"], sm=(host["sm"],), device=host["device"])
        judgement = judge(built, here)
        verdict: Any = judgement.load
        if judgement.load and judgement.warnings:
            verdict = "warn"
        assert verdict == host["load"]
        message = judgement.message("engine", "make")
        assert host.get("word", "") in message
        if verdict is not True:
            differing = [
                key for key in ("trt", "sm", "device") if says(host, built, key)
            ]
            for key in differing:
                assert host[key] in message
                assert plain(built, key) in message


def says(host: dict[str, str], built: PlanFacts, key: str) -> bool:
    return host[key] != plain(built, key)


def plain(facts: PlanFacts, key: str) -> str:
    return ", ".join(facts.sm) if key == "sm" else str(getattr(facts, key))


placements = st.none() | st.builds(
    DlaPlacement,
    st.tuples(st.text()),
    st.tuples(st.text()),
    st.dictionaries(st.text(), st.text(), max_size=2),
)


texts = st.none() | st.text(min_size=1)


@given(
    st.builds(
        PlanFacts,
        trt=texts,
        sm=st.lists(st.text(min_size=1), max_size=3).map(tuple),
        device=texts,
        model_sha256=texts,
        input=st.none() | st.dictionaries(st.text(), st.lists(st.integers())),
        dla=placements,
    )
)
def test_a_record_reads_back_to_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, facts: PlanFacts
) -> None:
    path = tmp_path_factory.mktemp("record") / "x.plan.json"
    path.write_text(json.dumps(record(facts)))
    assert read_facts(path) == facts


@pytest.mark.parametrize("text", ["", "[]", "7", '{"trt": 10}', '{"dla": {}}', "{"])
def test_a_damaged_record_says_to_rebuild(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.plan.json"
    path.write_text(text)
    with pytest.raises(EngineError, match=r"x\.plan\.json: cannot read .*rebuild"):
        read_facts(path)
