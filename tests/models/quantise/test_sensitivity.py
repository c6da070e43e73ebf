"""The search for the fewest layers that must stay in FP32."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.models.quantise.sensitivity import Search, effects

Cost = dict[str, int]


def additive(costs: Cost) -> Callable[[frozenset[str]], float]:
    """Layers that do not know of each other: what is INT8 adds up."""
    return lambda kept: sum(costs[name] for name in costs if name not in kept)


COSTS = st.lists(st.integers(0, 9), min_size=1, max_size=12).map(
    lambda values: {f"layer{i}": value for i, value in enumerate(values)}
)


@given(COSTS)
def test_effects_are_what_each_layer_costs_the_worst_first(costs: Cost) -> None:
    found = effects(list(costs), additive(costs))
    assert {effect.layer: effect.drop for effect in found} == costs
    drops = [effect.drop for effect in found]
    assert drops == sorted(drops, reverse=True)


@given(COSTS, st.integers(0, 20))
def test_what_is_found_holds_and_is_the_fewest_where_costs_add_up(
    costs: Cost, most: int
) -> None:
    drop_of = additive(costs)
    order = [effect.layer for effect in effects(list(costs), drop_of)]
    found = Search(order, drop_of, most).run()
    assert found is not None
    assert drop_of(found.kept) == found.drop <= most
    fewest = next(
        count
        for count in range(len(order) + 1)
        if drop_of(frozenset(order[:count])) <= most
    )
    assert len(found.kept) == fewest


@given(st.data(), COSTS, st.integers(0, 20))
def test_whatever_layers_do_to_each_other_what_is_found_holds(
    data: st.DataObject, costs: Cost, most: int
) -> None:
    judged: dict[frozenset[str], float] = {}

    def drop_of(kept: frozenset[str]) -> float:
        assert kept not in judged, "the same choice was judged twice"
        all_kept = len(kept) == len(costs)
        judged[kept] = 0.0 if all_kept else data.draw(st.integers(0, 40))
        return judged[kept]

    search = Search(list(costs), drop_of, most)
    found = search.run()
    assert found is not None
    assert judged[found.kept] <= most
    assert {point.kept: point.drop for point in search.points} == judged
    for layer in found.kept:
        without = found.kept - {layer}
        assert judged.get(without, most + 1) > most, "an idle layer was kept"


def test_no_choice_is_good_enough_when_fp32_itself_is_not() -> None:
    search = Search(["a", "b", "c"], lambda kept: 5.0, 1.0)
    assert search.run() is None
    assert {len(point.kept) for point in search.points} == {0, 1, 2, 3}


def test_a_choice_that_fails_elsewhere_is_widened_in_the_order() -> None:
    search = Search(["a", "b", "c"], additive({"a": 5, "b": 2, "c": 1}), 3)
    found = search.run()
    assert found is not None
    assert found.kept == {"a"}
    assert [sorted(point.kept) for point in search.widen(found)] == [
        ["a", "b"],
        ["a", "b", "c"],
    ]
