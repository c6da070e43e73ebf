"""Each heavy library is imported where it belongs and nowhere else.

import-linter checks the layers; this looks for the libraries itself because most are
imported by name when they are first needed, which it cannot see.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("pipeline", "stages", "models", "scheduler", "telemetry", "configs")

HOMES = {
    "av": {"stages"},
    "cv2": {"stages"},
    "jtop": {"telemetry"},
    "mcap": {"stages"},
    "onnx": {"models"},
    "onnxruntime": {"models"},
    "openvino": {"models"},
    "pyarrow": {"telemetry"},
    "pycocotools": set[str](),
    "pynvml": {"telemetry"},
    "rosbags": {"stages"},
    "scipy": {"stages"},
    "skvideo": set[str](),
    "tensorrt": {"models"},
    "tensorrt_rtx_bindings": {"models"},
    "torch": {"models"},
}
"""Library to the folders that may import it."""


def modules() -> list[Path]:
    """Every module of the package, by its real path."""
    source = ROOT / "src" / "edgepipe"
    places = [source, *(source / folder for folder in FOLDERS)]
    return sorted({path for at in places for path in at.resolve().rglob("*.py")})


def test_there_are_modules_to_look_at() -> None:
    assert len(modules()) > 50


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level packages that a module imports, also by ``import_module("name")``."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.partition(".")[0]
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name.partition(".")[0]
            case _:
                pass


@pytest.mark.parametrize("library", sorted(HOMES))
def test_a_heavy_library_is_imported_only_where_it_lives(library: str) -> None:
    strangers = [
        path.relative_to(ROOT).as_posix()
        for path in modules()
        if library in imported(ast.parse(path.read_text()))
        and not any(path.is_relative_to(ROOT / home) for home in HOMES[library])
    ]
    assert strangers == []


@pytest.mark.parametrize(
    "line",
    ["import cv2.dnn", "from cv2 import dnn", "x = importlib.import_module('cv2')"],
)
def test_every_way_to_import_is_seen(line: str) -> None:
    assert list(imported(ast.parse(f"def f():\n    {line}"))) == ["cv2"]
