import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from edgepipe.telemetry.environment import (
    checkout_commit,
    collect_environment,
    hide_credentials,
)
from edgepipe.telemetry.nulls import missing, nulls, present

CPUINFO = """\
processor\t: 0
model name\t: ARMv8 Processor rev 1 (v8l)
flags\t\t: fpu sse hypervisor avx2
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def collect(root: Path) -> dict[str, Any]:
    return collect_environment(["edgepipe", "bench"], {"openvino": 2}, root)


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=0")
    done = subprocess.run(
        ["git", "-C", str(folder), *options, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_the_environment_of_this_machine_is_json_whose_nulls_have_reasons() -> None:
    found = collect(Path("/"))
    assert json.loads(json.dumps(found)) == found
    assert [null for null in nulls(found) if not null.reason] == []
    assert found["threads"] == {"openvino": 2}
    assert "numpy" in found["libraries"]


def test_a_machine_that_tells_nothing_gives_reasons_and_no_guesses(
    tmp_path: Path,
) -> None:
    found = collect(tmp_path)
    assert found["cpu"]["model"]["value"] is None
    assert found["cpu"]["governor"]["value"] is None
    assert found["cpu"]["clock_mhz"]["value"] is None
    assert found["cpu"]["quota_cores"] == missing("no control group sets a limit")
    assert found["memory_mb"]["value"] is None
    assert found["machine"]["product"]["value"] is None
    assert found["machine"]["virtual_machine_hint"] == "none"
    assert [null for null in nulls(found) if not null.reason] == []


def test_what_the_kernel_shows_is_read(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
    write(
        tmp_path,
        {
            "proc/cpuinfo": CPUINFO,
            "proc/meminfo": "MemTotal:        8192000 kB\nMemFree: 1 kB\n",
            "proc/device-tree/model": "NVIDIA Jetson Orin Nano\0",
            "etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12"\n',
            ".dockerenv": "",
            cpu.format(0, "scaling_governor"): "schedutil\n",
            cpu.format(1, "scaling_governor"): "performance\n",
            cpu.format(0, "scaling_cur_freq"): "1510400\n",
            cpu.format(1, "scaling_cur_freq"): "729600\n",
        },
    )
    found = collect(tmp_path)
    assert found["cpu"]["model"] == present("ARMv8 Processor rev 1 (v8l)")
    assert found["cpu"]["governor"] == present("performance, schedutil")
    assert found["cpu"]["clock_mhz"] == present([1510.4, 729.6])
    assert found["memory_mb"] == present(8000.0)
    assert found["os"]["name"] == present("Debian GNU/Linux 12")
    assert found["machine"] == {
        "product": present("NVIDIA Jetson Orin Nano"),
        "virtual_machine_hint": "hypervisor flag of the processor",
        "container_hint": ".dockerenv",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "proc/self/cgroup": "0::/user/job\n",
                "sys/fs/cgroup/user/job/cpu.max": "max 100000\n",
                "sys/fs/cgroup/user/cpu.max": "150000 100000\n",
            },
            present(1.5),
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/cpu.max": "200000 100000\n",
            },
            present(2.0),
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            present(0.5),
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            missing("no control group sets a limit"),
        ),
    ],
    ids=["parent is tighter", "version 2 root", "version 1", "version 1 unlimited"],
)
def test_the_processor_quota_is_the_tightest_of_the_control_groups(
    tmp_path: Path, files: dict[str, str], expected: dict[str, Any]
) -> None:
    write(tmp_path, files)
    assert collect(tmp_path)["cpu"]["quota_cores"] == expected


def test_a_checkout_tells_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"a.py": "1"})
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert checkout_commit(tmp_path) == {"value": commit, "dirty": False, "reason": ""}
    write(tmp_path, {"a.py": "2"})
    assert checkout_commit(tmp_path)["dirty"] is True


def test_a_folder_inside_somebody_elses_repository_has_no_commit(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q")
    inside = tmp_path / "site-packages"
    inside.mkdir()
    assert checkout_commit(inside) == {
        "value": None,
        "dirty": None,
        "reason": "not run from a git checkout",
    }


def test_a_broken_repository_is_a_reason_and_not_an_error(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    found = checkout_commit(tmp_path)
    assert found["value"] is None
    assert found["reason"].startswith("git could not tell: fatal: ")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("rtsp://admin:secret@10.0.0.7/1", "rtsp://***@10.0.0.7/1"),
        ("rtsp://admin:p@ss@10.0.0.7/1", "rtsp://***@10.0.0.7/1"),
        ("a rtsp://u@h/1 b http://x:y@h/2", "a rtsp://***@h/1 b http://***@h/2"),
        ("rtsp://10.0.0.7/1?mail=a@b", "rtsp://10.0.0.7/1?mail=a@b"),
        ("clips/me@home.mp4", "clips/me@home.mp4"),
        ("rtsp://h/s?user=me&password=x&ch=1", "rtsp://h/s?user=***&password=***&ch=1"),
        ("rtsp://h/user=me_password=tl_ch=1.sdp", "rtsp://h/user=***"),
        ("rtsp://h/s?monkey=1&PWD=x", "rtsp://h/s?monkey=1&PWD=***"),
        ("key=5 clips/pass=1.mp4", "key=5 clips/pass=1.mp4"),
    ],
)
def test_credentials_are_blanked_out_of_addresses(given: str, shown: str) -> None:
    assert hide_credentials(given) == shown


def test_the_command_line_is_kept_without_its_passwords() -> None:
    argv = ["edgepipe", "run", "--set", "streams.0.source.uri=rtsp://a:b@h/1"]
    found = collect_environment(argv, {})
    assert found["command_line"][-1] == "streams.0.source.uri=rtsp://***@h/1"
