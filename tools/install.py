"""Install edgepipe into the Python that runs this and keep the OpenCV that is there.

opencv-python, opencv-python-headless and JetPack's build all own the folder cv2, but
pip takes them for unrelated packages: a plain ``pip install .`` would put the
headless one over whichever is there. This script installs everything else. Its
arguments are extras: ``python tools/install.py models samples``.
"""

import importlib
import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
OPENCV = "opencv-python-headless"
NUMPY_2 = (4, 10)
"""First OpenCV that was built to load with NumPy 2; older ones crash on import."""


def requirements(lines: Iterable[str], extras: Iterable[str]) -> list[str]:
    """Return what to install of a distribution's ``Requires-Dist`` lines."""
    wanted = {f'extra == "{extra}"' for extra in extras}
    chosen: list[str] = []
    for line in lines:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        if not requirement.startswith(OPENCV) and (not marker or marker in wanted):
            chosen.append(requirement)
    return chosen


def constraints(text: str, opencv: str) -> str:
    """Return constraints.txt in a form that an OpenCV of that version can live with."""
    version = tuple(int(part) for part in opencv.split(".")[:2])
    if version >= NUMPY_2:
        return text
    lines = [line for line in text.splitlines() if not line.startswith("numpy==")]
    return "\n".join([*lines, "numpy<2", ""])


def installed_opencv() -> str:
    """Return the version of the cv2 that this Python imports, or nothing."""
    code = "import cv2; print(cv2.__version__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return run.stdout.strip()


def pip_install(*arguments: str | Path) -> None:
    """Run ``pip install``; a failure ends the script with pip's exit code."""
    command = [sys.executable, "-m", "pip", "install", *arguments]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise SystemExit(code)


def requires() -> list[str]:
    """Return the ``Requires-Dist`` lines of the edgepipe just installed."""
    importlib.invalidate_caches()
    return importlib.metadata.requires("edgepipe") or []


def main(extras: list[str]) -> None:
    """Install; say what was kept."""
    pins = ROOT / "constraints.txt"
    opencv = installed_opencv()
    if not opencv:
        target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
        pip_install("-c", pins, target)
        return
    print(f"OpenCV {opencv} is here and stays as it is.")
    pip_install("--no-deps", ROOT)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as fitted:
        fitted.write(constraints(pins.read_text(), opencv))
        fitted.flush()
        pip_install("-c", fitted.name, *requirements(requires(), extras))
    if installed_opencv() != opencv:
        raise SystemExit(f"OpenCV {opencv} no longer loads; see the messages above")


if __name__ == "__main__":
    main(sys.argv[1:])
