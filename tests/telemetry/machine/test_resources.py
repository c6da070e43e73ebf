"""Memory, the clock, the disk, permissions and packages."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from edgepipe.telemetry.machine.finding import Level
from edgepipe.telemetry.machine.memory import Memory, examine_memory, judge_memory
from edgepipe.telemetry.machine.realtime import (
    Realtime,
    examine_realtime,
    judge_realtime,
)
from edgepipe.telemetry.machine.software import (
    Software,
    examine_software,
    installed,
    judge_software,
)
from edgepipe.telemetry.machine.storage import Storage, examine_storage, judge_storage
from edgepipe.telemetry.machine.timing import (
    Timing,
    examine_timing,
    judge_timing,
    smallest_step_ns,
)

from .conftest import MakeTree, OneOf

GIB = 1 << 30
ROOMY = Memory(8 * GIB, 5 * GIB, 0, 0, None, 0.0, 0, "madvise")
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              8388608              bytes
Max open files            1024                 1048576              files
Max nice priority         0                    0
Max realtime priority     {}                    0"""


def test_memory_is_read_from_files(make_tree: MakeTree) -> None:
    info = "MemTotal: 8 kB\nMemAvailable: 6 kB\nSwapTotal: 4 kB\nSwapFree: 3 kB"
    tree = make_tree(
        {
            "proc/meminfo": info,
            "proc/pressure/memory": "some avg10=2.50 avg60=0.00 total=1\nfull avg10=0",
            "proc/self/oom_score_adj": "300",
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": "4096",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        }
    )
    facts = examine_memory(tree)
    assert facts == Memory(8192, 6144, 4096, 1024, 4096, 2.5, 300, "always")
    assert {each.subject: each.level for each in judge_memory(facts)} == {
        "available": Level.PROBLEM,
        "limit": Level.NOTE,
        "swap": Level.NOTE,
        "pressure": Level.WARNING,
        "killing": Level.NOTE,
        "huge pages": Level.NOTE,
    }


def test_enough_memory_is_fine() -> None:
    assert {each.level for each in judge_memory(ROOMY)} == {Level.OK}


@pytest.mark.parametrize(
    ("available", "level"),
    [(GIB, Level.OK), (GIB - 1, Level.WARNING), (200 << 20, Level.PROBLEM)],
)
def test_too_little_memory_is_told(available: int, level: Level, one_of: OneOf) -> None:
    facts = replace(ROOMY, available_bytes=available)
    assert one_of(judge_memory(facts), "available").level is level


@pytest.mark.parametrize(
    ("source", "level"),
    [
        ("tsc", Level.OK),
        ("arch_sys_counter", Level.OK),
        ("hpet", Level.WARNING),
        ("refined-jiffies", Level.WARNING),
        ("brand-new", Level.NOTE),
    ],
)
def test_a_slow_clock_source_speaks_against_a_bench(
    source: str, level: Level, one_of: OneOf
) -> None:
    found = one_of(judge_timing(Timing(source, ("tsc",), 30)), "clock source")
    assert found.level is level
    assert found.speaks_against_a_bench is (level is Level.WARNING)


def test_the_remedy_names_a_clock_source_that_is_there(one_of: OneOf) -> None:
    better = one_of(judge_timing(Timing("hpet", ("acpi_pm", "tsc"), 1)), "clock source")
    assert better.remedy == "boot with clocksource=tsc"
    given_up = one_of(judge_timing(Timing("hpet", ("acpi_pm",), 1)), "clock source")
    assert "dmesg" in given_up.remedy


def test_clock_sources_are_read(make_tree: MakeTree) -> None:
    folder = "sys/devices/system/clocksource/clocksource0"
    tree = make_tree(
        {
            f"{folder}/current_clocksource": "hpet",
            f"{folder}/available_clocksource": "tsc hpet acpi_pm ",
        }
    )
    assert examine_timing(tree, 5) == Timing("hpet", ("tsc", "acpi_pm"), 5)


def test_the_smallest_step_leaves_out_reads_within_one_tick(one_of: OneOf) -> None:
    stamps = iter(n // 3 * 4_000_000 for n in range(10_000))
    step = smallest_step_ns(lambda: next(stamps))
    assert step == 4_000_000
    found = one_of(judge_timing(Timing("tsc", (), step)), "resolution")
    assert found.level is Level.WARNING
    assert smallest_step_ns(lambda: 7) is None


def test_the_folder_for_runs_is_looked_at_before_it_exists(
    make_tree: MakeTree, tmp_path: Path
) -> None:
    mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n" + (
        f"2 1 0:3 / {tmp_path.parent} rw shared:1 - tmpfs none rw\ngarbage\n- -"
    )
    tree = make_tree(
        {"proc/self/mountinfo": mounts, "proc/self/limits": LIMITS.format(0)}
    )
    facts = examine_storage(tree, tmp_path / "a/runs")
    assert facts.folder == str(tmp_path / "a/runs")
    assert (facts.system, facts.writable, facts.open_files) == ("tmpfs", True, 1024)
    assert facts.free_bytes
    assert not (tmp_path / "a").exists()


def test_a_place_that_cannot_be_asked_about_is_not_known(
    make_tree: MakeTree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_of: OneOf,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    facts = examine_storage(make_tree({}), Path("runs"))
    found = one_of(judge_storage(facts), "run folders")
    assert (found.known, found.found) == (False, "not known: runs: not there")


def test_a_file_is_no_folder_for_runs(make_tree: MakeTree, tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    assert examine_storage(make_tree({}), tmp_path / "runs").writable is False


DISK = Storage(
    "/data/runs", "ext4", 50 * GIB, writable=True, reason="", open_files=1024
)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.OK),
        ({"system": "nfs4"}, Level.NOTE),
        ({"system": "tmpfs"}, Level.NOTE),
        ({"free_bytes": GIB - 1}, Level.WARNING),
        ({"free_bytes": 1000}, Level.PROBLEM),
        ({"writable": False}, Level.WARNING),
        ({"free_bytes": None, "reason": "gone"}, Level.NOTE),
    ],
)
def test_disks(change: Mapping[str, object], level: Level, one_of: OneOf) -> None:
    facts = replace(DISK, **change)  # type: ignore[arg-type]
    found = one_of(judge_storage(facts), "run folders")
    assert found.level is level
    assert "/data/runs" in found.found


def test_few_open_files_are_a_warning(one_of: OneOf) -> None:
    facts = replace(DISK, open_files=64)
    assert one_of(judge_storage(facts), "open files").level is Level.WARNING


@pytest.mark.parametrize(
    ("capabilities", "limit", "said"),
    [
        ("0000000000800000", "0", "SCHED_FIFO is granted (CAP_SYS_NICE)"),
        ("0000000000000000", "20", "SCHED_FIFO up to 20 (RLIMIT_RTPRIO)"),
        ("0000000000000000", "0", "SCHED_FIFO is refused"),
        ("garbage", "x", "not known: no limits or capabilities could be read"),
    ],
)
def test_who_may_have_the_real_time_class(
    capabilities: str, limit: str, said: str, make_tree: MakeTree, one_of: OneOf
) -> None:
    tree = make_tree(
        {
            "proc/self/status": f"CapPrm:\t0\nCapEff:\t{capabilities}",
            "proc/self/limits": LIMITS.format(limit),
        }
    )
    found = one_of(judge_realtime(examine_realtime(tree)), "permission")
    assert found.found.startswith(said)
    assert not found.level.is_bad


FREE = Realtime(
    may_raise=True,
    may_lock=True,
    priority_limit=0,
    nice_limit=0,
    locked_limit_bytes=None,
    runtime_us=950_000,
    period_us=1_000_000,
    shared_by_group=False,
    group_runtime_us=None,
    in_a_group=False,
    preemption="PREEMPT_RT",
    slack_ns=50_000,
)


def test_a_real_time_machine_is_fine() -> None:
    found = [*judge_realtime(FREE)]
    assert {each.level for each in found} == {Level.OK}
    lost = "real-time threads that never sleep lose 50 ms of each 1000 ms"
    assert lost in {each.found for each in found}


@pytest.mark.parametrize(
    ("shared", "granted", "in_a_group", "trapped"),
    [
        (True, 0, True, True),
        (True, None, True, True),
        (True, None, False, False),
        (True, 950_000, True, False),
        (False, None, True, False),
        (None, None, True, False),
    ],
)
def test_real_time_that_is_shared_by_group_is_a_trap(
    shared: bool | None, granted: int | None, in_a_group: bool, trapped: bool
) -> None:
    facts = replace(
        FREE, shared_by_group=shared, group_runtime_us=granted, in_a_group=in_a_group
    )
    levels = {each.subject: each.level for each in judge_realtime(facts)}
    assert (levels.get("groups") is Level.WARNING) is trapped


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"sys/kernel/realtime": "1"}, "PREEMPT_RT"),
        ({"proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC x"}, "PREEMPT_DYNAMIC"),
        ({"proc/sys/kernel/version": "#1 SMP PREEMPT_RT x"}, "PREEMPT_RT"),
        ({"proc/sys/kernel/version": "#1 SMP x"}, "no PREEMPT"),
        ({}, None),
    ],
)
def test_how_the_kernel_interrupts_itself(
    files: Mapping[str, str], kind: str | None, make_tree: MakeTree
) -> None:
    assert examine_realtime(make_tree(files)).preemption == kind


def test_a_real_time_class_without_a_bound_and_late_timers_are_noted() -> None:
    facts = replace(FREE, runtime_us=-1, slack_ns=200_000, preemption="PREEMPT")
    noted = {e.subject for e in judge_realtime(facts) if e.level is Level.NOTE}
    assert noted == {"throttling", "timer slack"}


def test_packages_are_named_with_their_versions(make_tree: MakeTree) -> None:
    there = {"openvino": "2026.4", "pynvml": "13.6", "jtop": "7.2", "gi": "3.4"}
    tree = make_tree({"proc/driver/nvidia/version": "NVRM version: 580\nGCC: x"})
    facts = examine_software(tree, lambda module, _: there.get(module))
    assert facts.nvidia_driver == "NVRM version: 580"
    assert {each.found for each in judge_software(facts)} == {
        "openvino 2026.4",
        "nvidia-ml-py 13.6",
        "jetson-stats 7.2",
        "PyGObject 3.4, for csi: cameras",
    }


def test_an_nvidia_driver_without_nvml_and_no_engine_are_told(one_of: OneOf) -> None:
    found = [*judge_software(Software({}, {}, "NVRM 580"))]
    assert one_of(found, "NVML").level is Level.WARNING
    assert one_of(found, "engines").level is Level.PROBLEM


def test_a_module_is_found_without_being_loaded() -> None:
    assert installed("yaml", ("PyYAML",)) not in (None, "installed")
    assert installed("json", ("no-such-distribution",)) == "installed"
    assert installed("no_such_module", ()) is None
