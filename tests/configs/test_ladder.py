"""The ladder: what its rungs add up to, and what it cannot be."""

import pytest

from edgepipe.configs import load
from edgepipe.configs.ladder import RungPlan, rungs

from .conftest import Complaints


def test_a_rung_keeps_what_the_rungs_above_it_give_up() -> None:
    entries: list[dict[str, object]] = [
        {"stride": 2},
        {"variant": "small"},
        {"track_only": 3},
    ]
    assert rungs(entries, batch_max=1) == [
        RungPlan("full", 1, "full", 1, 1, 1.0, 1.0),
        RungPlan("stride 2", 2, "full", 1, 1, 1.0, 1.0),
        RungPlan("stride 2 + small", 2, "small", 1, 1, 1.0, 1.0),
        RungPlan("stride 2 + small + track-only 3", 2, "small", 3, 1, 1.0, 1.0),
    ]


def test_a_rung_may_take_back_what_one_above_it_gave_up() -> None:
    below = rungs([{"stride": 2}, {"stride": 1, "variant": "small"}], 1)[2]
    assert (below.name, below.stride, below.variant) == ("small", 1, "small")


def test_a_value_holds_for_results_without_the_network_unless_they_have_their_own() -> (
    None
):
    entries: list[dict[str, object]] = [
        {"track_only": 2, "value": 0.8},
        {"track_only": 3, "value": 0.7, "track_only_value": 0.4},
        {"track_only": 4},
    ]
    values = [(rung.value, rung.track_only_value) for rung in rungs(entries, 1)]
    assert values == [(1.0, 1.0), (0.8, 0.8), (0.7, 0.4), (0.7, 0.4)]


def test_batches_are_named_where_they_differ_from_full_quality() -> None:
    names = [rung.name for rung in rungs([{"batch_max": 4}, {"stride": 2}], 2)]
    assert names == ["full", "batch 4", "stride 2 + batch 4"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "scheduler: {ladder: [{variant: small}]}\n",
            "5:32: scheduler.ladder[0].variant: no variant 'small' in model.variants,"
            " there are full",
        ),
        (
            "model: {variants: [{name: small}]}\n",
            "5:27: model.variants[0].name: no rung and no stream runs variant 'small'",
        ),
        (
            "model: {variants: [{name: full}]}\n",
            "5:27: model.variants[0].name: full is what a stream runs at full quality",
        ),
        (
            "scheduler: {ladder: [{stride: 2}, {value: 0.5}]}\n",
            "5:35: scheduler.ladder[1]: the work is the same as on rung 'stride 2'",
        ),
        (
            "scheduler: {ladder: [{stride: 1}]}\n",
            "5:22: scheduler.ladder[0]: the work is the same as on rung 'full'",
        ),
        (
            "scheduler: {policy: slack+ladder}\n",
            "5:21: scheduler.policy: slack+ladder needs scheduler.ladder, and there is"
            " none",
        ),
        (
            "scheduler: {policy: edf, ladder: [{stride: 2}]}\n",
            "5:21: scheduler.policy: edf does not use scheduler.ladder: leave one of"
            " them out",
        ),
        (
            "tracker: {kind: none}\nscheduler: {ladder: [{track_only: 2}]}\n",
            "6:35: scheduler.ladder[0].track_only: a track-only frame needs a tracker,"
            " and tracker.kind is none",
        ),
    ],
)
def test_a_ladder_that_makes_no_sense_is_refused(
    text: str, said: str, smallest: str, complaints: Complaints
) -> None:
    assert complaints(smallest + text) == [f"f.yaml:{said}"]


def test_a_variant_that_is_given_twice_is_refused_once(
    smallest: str, complaints: Complaints
) -> None:
    variants = "model: {variants: [{name: small}, {name: small, score: 0.5}]}\n"
    ladder = "scheduler: {ladder: [{variant: small}]}\n"
    assert complaints(smallest + variants + ladder) == [
        "f.yaml:5:42: model.variants[1].name: variant 'small' is given twice"
    ]


@pytest.mark.parametrize("entry", ["3", "{stride: a}", "{track_only: true}"])
def test_what_has_the_wrong_shape_is_left_to_the_schema(
    entry: str, smallest: str, complaints: Complaints
) -> None:
    text = f"{smallest}scheduler: {{ladder: [{entry}, {{stride: 2}}]}}\n"
    (said,) = complaints(text)
    assert "scheduler.ladder[0]" in said
    assert "the work is the same" not in said


def test_a_ladder_is_written_as_it_was_read(smallest: str) -> None:
    text = (
        f"{smallest}model: {{variants: [{{name: small, precision: fp32}}]}}\n"
        "scheduler: {ladder: [{variant: small, value: 0.5}]}\n"
    )
    first = load.parse(text, "f")
    again = load.parse(load.dump_yaml(first.effective), "g")
    assert again.config == first.config
    assert again.sha256 == first.sha256
