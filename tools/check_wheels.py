"""Ask the package index for a wheel of every constraint on every platform we name.

Metadata only: nothing is built and, where the index serves metadata apart from the
wheels, nothing is downloaded. Exits with 1 and names what is missing. The markers
are evaluated here because pip evaluates them for the interpreter it runs on.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# JetPack 6 stands on glibc 2.35; the older names are what wheels are tagged with.
GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17")
MACHINES = ("x86_64", "aarch64")
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def pins(python: str, machine: str) -> list[str]:
    """Return the lines of constraints.txt that hold there, without their markers."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.15",
        "platform_machine": machine,
        "sys_platform": "linux",
    }
    lines = CONSTRAINTS.read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return [
        f"{r.name}{r.specifier}"
        for r in found
        if r.marker is None or r.marker.evaluate(environment)
    ]


def missing(python: str, machine: str) -> str:
    """Return pip's complaint, or nothing when every wheel is there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet"]
        command += ["--no-deps", "--only-binary=:all:", f"--target={folder}"]
        command += [f"--python-version={python}"]
        command += [f"--platform={glibc}_{machine}" for glibc in GLIBC]
        command += pins(python, machine)
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stderr if run.returncode else ""


def main() -> int:
    """Check every pair; return the exit code."""
    worst = 0
    for machine in MACHINES:
        for python in PYTHONS:
            complaint = missing(python, machine)
            print(f"Python {python} {machine}:", complaint or "every wheel is there")
            worst |= bool(complaint)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
