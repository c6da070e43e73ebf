"""Plans lie beside their models and are replaced in one step."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt import cache
from edgepipe.models.tensorrt.cache import PlanCache
from edgepipe.models.tensorrt.plan import PlanFacts

HERE = PlanFacts(trt="10.3.0", sm=("87",), device="Orin", model_sha256="aa")


@pytest.fixture
def plans(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "yard.onnx", "edgepipe model build yard.yaml")


def files(plans: PlanCache) -> list[str]:
    return sorted(path.name for path in plans.record.parent.iterdir())


def refuse() -> tuple[bytes, PlanFacts]:
    raise EngineError("it cannot be built")


def test_a_stored_plan_is_found_again(plans: PlanCache) -> None:
    stored = plans.store(b"plan", HERE)
    assert stored.built
    found = plans.find(HERE)
    assert (found.path, found.facts, found.built) == (stored.path, HERE, False)
    assert found.path.read_bytes() == b"plan"


def test_without_a_plan_the_command_that_makes_one_is_said(plans: PlanCache) -> None:
    with pytest.raises(
        EngineError, match=r"no plan .*'edgepipe model build yard\.yaml'"
    ):
        plans.find(HERE)


def test_a_new_plan_takes_the_place_of_the_old_one(plans: PlanCache) -> None:
    old = plans.store(b"old", HERE)
    new = plans.store(b"new", HERE)
    assert not old.path.exists()
    assert files(plans) == sorted([new.path.name, "yard.plan.json"])
    plans.store(b"new", HERE)
    assert plans.find(HERE).path == new.path


def test_a_plan_that_does_not_fit_is_built_again_only_if_told_to(
    plans: PlanCache,
) -> None:
    old = plans.store(b"old", replace(HERE, trt="8.6.1"))
    build = lambda: (b"new", HERE)  # noqa: E731
    with pytest.raises(
        EngineError, match=r"TensorRT version 8\.6\.1, this .* 10\.3\.0"
    ):
        plans.find_or_build(HERE, build, rebuild=False)
    assert old.path.exists()
    found = plans.find_or_build(HERE, build, rebuild=True)
    assert (found.built, found.path.read_bytes()) == (True, b"new")


def test_the_old_plan_stays_if_the_next_one_cannot_be_built(plans: PlanCache) -> None:
    old = plans.store(b"old", replace(HERE, trt="8.6.1"))
    with pytest.raises(EngineError, match=r"it cannot be built"):
        plans.find_or_build(HERE, refuse, rebuild=True)
    assert old.path.read_bytes() == b"old"
    assert plans.find(replace(HERE, trt="8.6.1")).path == old.path


@pytest.mark.parametrize("written", [0, 1])
def test_the_old_plan_stays_if_writing_the_next_one_breaks_off(
    plans: PlanCache, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = plans.store(b"old", HERE)
    write, left = cache.write_whole, [written]

    def broken(path: Path, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(cache, "write_whole", broken)
    with pytest.raises(EngineError, match=r"cannot write the plan: .*No space left"):
        plans.store(b"new", HERE)
    assert plans.find(HERE).path == old.path


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    cache.write_whole(path, b"one")
    with pytest.raises(TypeError):
        cache.write_whole(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_that_is_not_what_its_record_says_is_not_loaded(
    plans: PlanCache,
) -> None:
    path = plans.store(b"plan", HERE).path
    path.write_bytes(b"pla")
    with pytest.raises(EngineError, match=r"the plan has sha256 .*, its record says"):
        plans.find(HERE)
    path.unlink()
    with pytest.raises(EngineError, match=r"cannot read the plan .No such file"):
        plans.find(HERE)


def test_a_record_cannot_name_a_file_elsewhere(plans: PlanCache) -> None:
    plans.store(b"plan", HERE)
    data = json.loads(plans.record.read_text())
    plans.record.write_text(json.dumps({**data, "plan": "/etc/hostname"}))
    with pytest.raises(EngineError, match=r"hostname: cannot read .*No such file"):
        plans.find(HERE)


def test_a_plan_that_may_be_slow_is_found_with_a_warning(plans: PlanCache) -> None:
    plans.store(b"plan", HERE)
    warning = plans.find(replace(HERE, device="Orin NX")).warning
    assert "device model Orin, this machine has Orin NX" in warning
    assert "edgepipe model build yard.yaml" in warning
