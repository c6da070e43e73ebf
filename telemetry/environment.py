"""The facts of ``environment.json``: what a run ran on, read without side effects."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgepipe.telemetry.nulls import missing, present

LIBRARIES = (
    "numpy",
    "opencv-python-headless",
    "opencv-python",
    "av",
    "openvino",
    "onnxruntime",
    "pyarrow",
    "scipy",
    "pydantic",
    "PyYAML",
    "rich",
    "torch",
    "tensorrt",
    "pycuda",
)
"""Distributions whose version may explain a difference between two runs."""

_GIT_TIMEOUT_S = 5


def collect_environment(
    argv: Sequence[str], threads: Mapping[str, int], root: Path = Path("/")
) -> dict[str, Any]:
    """Everything known about the machine and the software.

    Args:
        argv: The command line; passwords in addresses are blanked out.
        threads: Threads granted to each library, as really set.
        root: Where ``proc``, ``sys`` and the like are found.
    """
    return {
        "edgepipe": _package("edgepipe"),
        "commit": checkout_commit(Path(__file__).resolve().parent.parent),
        "command_line": [hide_credentials(word) for word in argv],
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
        },
        "os": _os_facts(root),
        "cpu": _cpu_facts(root),
        "memory_mb": _memory(root),
        "machine": machine_facts(root),
        "libraries": {
            name: installed
            for name in LIBRARIES
            if (installed := _version(name)) is not None
        },
        "threads": dict(threads),
    }


_SECRET = re.compile(
    r"((?<![a-z])(?:password|passwd|passwort|pass|pwd|psw|token|secret|auth|key"
    r"|user|username|usr|login)=)[^&;/?#\s]+",
    re.IGNORECASE,
)
"""A value that an address carries for those who know it."""


def hide_credentials(text: str) -> str:
    """The text with what lets somebody in blanked out of every address.

    That is user and password before the host, and what stands behind a word such as
    ``password=`` anywhere after it, as many cameras want it.
    """
    text = re.sub(r"(\w://)[^/\s]*@", r"\1***@", text)
    return re.sub(r"\w://[^\s\"']+", _hide_values, text)


def _hide_values(address: re.Match[str]) -> str:
    return _SECRET.sub(r"\1***", address[0])


def checkout_commit(checkout: Path) -> dict[str, Any]:
    """Git commit of a checkout: ``{value, dirty, reason}``.

    ``dirty`` tells whether tracked files differ from the commit. Only a repository
    whose root is exactly ``checkout`` counts: an installed package that happens to lie
    inside somebody's repository has no commit.
    """
    if not (checkout / ".git").exists():
        return missing("not run from a git checkout") | {"dirty": None}
    try:
        commit = _git(checkout, "rev-parse", "HEAD")
        changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError) as error:
        return missing(f"git could not tell: {_git_complaint(error)}") | {"dirty": None}
    return present(commit) | {"dirty": bool(changes)}


def _git(checkout: Path, *arguments: str) -> str:
    # Without the optional locks a status never writes into the repository.
    done = subprocess.run(
        ["git", "-C", str(checkout), *arguments],
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_GIT_TIMEOUT_S,
        check=True,
    )
    return done.stdout.strip()


def _git_complaint(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError) and error.stderr:
        return str(error.stderr).strip().splitlines()[0]
    return type(error).__name__


def _package(name: str) -> dict[str, Any]:
    installed = _version(name)
    return present(installed) if installed else missing("not installed as a package")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _os_facts(root: Path) -> dict[str, Any]:
    release = re.search(
        r'^PRETTY_NAME="?([^"\n]*)', _read(root / "etc/os-release"), re.MULTILINE
    )
    return {
        "name": present(release[1]) if release else missing("no os-release file"),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _cpu_facts(root: Path) -> dict[str, Any]:
    info = _read(root / "proc/cpuinfo")
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info, re.MULTILINE)
    cpufreq = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    return {
        "model": present(model[1]) if model else missing("not named in cpuinfo"),
        "cores_online": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "quota_cores": _quota(root),
        "governor": _governor(cpufreq),
        "clock_mhz": _clocks(cpufreq),
    }


def _governor(cpufreq: Sequence[Path]) -> dict[str, Any]:
    names = {_read(folder / "scaling_governor") for folder in cpufreq} - {""}
    return present(", ".join(sorted(names))) if names else missing(_NO_CPUFREQ)


def _clocks(cpufreq: Sequence[Path]) -> dict[str, Any]:
    clocks_khz = [_read(folder / "scaling_cur_freq") for folder in cpufreq]
    # The figure in /proc/cpuinfo is no substitute: in a virtual machine it is constant.
    clocks_mhz = [int(text) / 1000 for text in clocks_khz if text.isdecimal()]
    return present(clocks_mhz) if clocks_mhz else missing(_NO_CPUFREQ)


_NO_CPUFREQ = "not measured: the kernel shows no cpufreq here"


def _quota(root: Path) -> dict[str, Any]:
    """Cores that the control group grants, the smallest on the way to its root."""
    quotas = [
        quota / period
        for quota, period in map(_limit, _group_folders(root))
        if quota > 0 and period > 0
    ]
    return present(min(quotas)) if quotas else missing("no control group sets a limit")


def _limit(folder: Path) -> tuple[int, int]:
    """Quota and period in microseconds; zeros or -1 when there is no limit."""
    text = _read(folder / "cpu.max") or " ".join(
        _read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")
    )
    words = text.split()
    if len(words) != 2 or not all(word.lstrip("-").isdecimal() for word in words):
        return 0, 0
    return int(words[0]), int(words[1])


def _group_folders(root: Path) -> Iterator[Path]:
    """Folders of this process's cpu control groups, version 2 and 1, leaf to root."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controllers and "cpu")
        leaf = top / path.lstrip("/")
        yield leaf
        yield from (p for p in leaf.parents if p == top or top in p.parents)


def _memory(root: Path) -> dict[str, Any]:
    total = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"))
    return present(int(total[1]) / 1024) if total else missing("no /proc/meminfo")


def machine_facts(root: Path) -> dict[str, Any]:
    """Board or product name and signs of a virtual machine or container.

    ``{product: {value, reason}, virtual_machine_hint, container_hint}``; a hint is
    ``none`` or what gives it away.
    """
    board = _read(root / "proc/device-tree/model").rstrip("\0")
    product = board or _read(root / "sys/class/dmi/id/product_name")
    info = _read(root / "proc/cpuinfo")
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE)
    inside = (root / ".dockerenv", root / "run/.containerenv")
    return {
        "product": present(product) if product else missing("the firmware names none"),
        "virtual_machine_hint": "hypervisor flag of the processor" if flags else "none",
        "container_hint": next((p.name for p in inside if p.exists()), "none"),
    }


def _read(path: Path) -> str:
    """The stripped text of a small file; empty when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
