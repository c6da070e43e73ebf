"""Work on a strange file in a process of its own, with bounds on time and memory.

Inferring shapes and running a network are done by native code that a damaged or hostile
file can make crash, hang or eat all memory. What was done before that is kept.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST_S = 120
"""For everything that is done with one file."""
_MEMORY_SHARE = 0.8
"""Of the machine's memory."""
_MODEL, _INPUTS, _TASK = "model.onnx", "inputs.npz", "task.json"
_FIXED, _SMALL, _SIMPLE = "fixed.onnx", "small.onnx", "simplified.onnx"
_OUTPUTS, _FAILURE = "outputs.npz", "failure.json"


@dataclass(frozen=True, slots=True)
class Results:
    """What was done, as far as it went."""

    fixed: bytes | None = None
    """The model with the shapes that follow from those of its inputs."""
    simplified: bytes | None = None
    """The same, and with all that does not depend on the image computed: exporters
    leave the arithmetic of grids and strides in the graph, onnxruntime folds it."""
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    """What a run gave, by output."""
    failure: str | None = None
    """Why the network could not be run, None if it could."""


def work_apart(
    model: bytes, folder: Path, inputs: Mapping[str, NDArray[Any]] | None
) -> Results:
    """Infer shapes, simplify, and run once.

    Args:
        model: The model with every size of its inputs fixed.
        folder: Where its external data lies.
        inputs: What to run it with; None: do not.
    """
    with tempfile.TemporaryDirectory(prefix="edgepipe-inspect-") as name:
        scratch = Path(name)
        (scratch / _MODEL).write_bytes(model)
        task = {"folder": str(folder.resolve()), "run": inputs is not None}
        (scratch / _TASK).write_text(json.dumps(task))
        np.savez(scratch / _INPUTS, **_numbered(inputs or {}))
        return _collected(scratch, _call(scratch))


def _numbered(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Arrays by place, and their names: a name may hold what a file's may not."""
    names = np.array(json.dumps(list(arrays)))
    return {"names": names, **{f"a{i}": each for i, each in enumerate(arrays.values())}}


def _named(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as stored:
        names = json.loads(str(stored["names"]))
        return {name: stored[f"a{index}"] for index, name in enumerate(names)}


def _call(scratch: Path) -> str | None:
    """Run the process; what became of it if it did not end by itself."""
    words = [sys.executable, "-m", __name__, str(scratch)]
    # The package may have been found by a path that only this process knows.
    paths = os.pathsep.join(each for each in sys.path if each)
    try:
        ended = subprocess.run(
            words,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {LONGEST_S} s"
    if ended.returncode == 0:
        return None
    return f"the process that worked on it was lost (exit code {ended.returncode})"


def _collected(scratch: Path, lost: str | None) -> Results:
    found = {name: _bytes(scratch / name) for name in (_FIXED, _SIMPLE)}
    failure = scratch / _FAILURE
    said = json.loads(failure.read_text()) if failure.exists() else lost
    outputs = scratch / _OUTPUTS
    values = _named(outputs) if outputs.exists() and not lost else {}
    return Results(found[_FIXED], found[_SIMPLE], values, said)


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def work(scratch: Path) -> None:
    """What the process does: leave results in the folder that it got its task in."""
    task = json.loads((scratch / _TASK).read_text())
    _infer(scratch / _MODEL, scratch / _FIXED)
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError as error:
        _fail(scratch, f"onnxruntime cannot be imported: {error}")
        return
    if _simplify(ort, scratch, task["folder"]):
        _infer(scratch / _SMALL, scratch / _SIMPLE)
        if task["run"]:
            _run(ort, scratch, task["folder"])


def _bound_memory() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    bound = int(total * _MEMORY_SHARE)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _infer(source: Path, target: Path) -> None:
    onnx: Any = import_module("onnx")
    inference: Any = import_module("onnx.shape_inference")
    model = onnx.load_from_string(source.read_bytes())
    with suppress(Exception):  # without shapes is better than not at all
        model = inference.infer_shapes(model, data_prop=True)
    _put(target, model.SerializeToString())


def _put(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


def _fail(scratch: Path, why: str) -> None:
    (scratch / _FAILURE).write_text(json.dumps(" ".join(why.split())[:1000]))


def _options(ort: Any, folder: str) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", folder
    )
    return options


def _session(ort: Any, content: bytes, options: Any) -> Any:
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _simplify(ort: Any, scratch: Path, folder: str) -> bool:
    options = _options(ort, folder)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(scratch / _SMALL)
    try:
        _session(ort, (scratch / _MODEL).read_bytes(), options)
    except Exception as error:  # noqa: BLE001 - its errors have no base but Exception
        _fail(scratch, str(error))
        return False
    return True


def _run(ort: Any, scratch: Path, folder: str) -> None:
    try:
        content = (scratch / _MODEL).read_bytes()
        session = _session(ort, content, _options(ort, folder))
        names = [output.name for output in session.get_outputs()]
        arrays = session.run(names, _named(scratch / _INPUTS))
    except Exception as error:  # noqa: BLE001 - as above
        _fail(scratch, str(error))
        return
    found = {
        name: array
        for name, array in zip(names, arrays, strict=True)
        if hasattr(array, "dtype") and array.dtype.kind in "fiub"
    }
    np.savez(scratch / _OUTPUTS, **_numbered(found))


if __name__ == "__main__":
    _bound_memory()
    work(Path(sys.argv[1]))
