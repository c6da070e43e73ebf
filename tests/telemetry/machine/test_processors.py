from dataclasses import replace

import pytest

from edgepipe.telemetry.machine.activity import Activity, User
from edgepipe.telemetry.machine.finding import Level
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.machine.processors import (
    Processors,
    examine_processors,
    judge_processors,
)
from edgepipe.telemetry.sensors.nvml import GpuUser, GpuUsers
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading

from .conftest import MakeTree, OneOf

QUIET = Activity(0.02, 0.0, ())
FOUR = Processors(
    online=frozenset({0, 1, 2, 3}),
    offline=frozenset(),
    usable=frozenset({0, 1, 2, 3}),
    isolated=frozenset(),
    quota_cores=None,
    threads_share_cores=False,
    nodes=1,
    load_1min=0.25,
    balances_interrupts=False,
    activity=QUIET,
    gpu=None,
    gpu_loads={},
)
CPU = "sys/devices/system/cpu"


def test_a_quiet_machine_gives_no_reason_to_complain() -> None:
    found = [*judge_processors(FOUR)]
    assert {each.level for each in found} == {Level.OK}
    assert [each.subject for each in found] == ["usable", "others"]
    assert found[0].found == "4 of 4 online (0-3)"


def test_everything_is_read_from_files(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            f"{CPU}/online": "0-3,6",
            f"{CPU}/offline": "4-5",
            f"{CPU}/isolated": "6",
            f"{CPU}/smt/active": "1",
            "sys/devices/system/node/online": "0-1",
            "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t2-7",
            "proc/loadavg": "1.50 0.8 0.2 2/300 4000",
            "proc/self/cgroup": "0::/box/inner",
            "sys/fs/cgroup/box/cpu.max": "150000 100000",
            "sys/fs/cgroup/box/inner/cpu.max": "max 100000",
        }
    )
    load = Channel(Kind.LOAD, "gpu", "devfreq")
    facts = examine_processors(tree, Measured([Reading(load, 0.4, 0)]), QUIET)
    assert facts == Processors(
        online=frozenset({0, 1, 2, 3, 6}),
        offline=frozenset({4, 5}),
        usable=frozenset({2, 3, 6}),
        isolated=frozenset({6}),
        quota_cores=1.5,
        threads_share_cores=True,
        nodes=2,
        load_1min=1.5,
        balances_interrupts=False,
        activity=QUIET,
        gpu=None,
        gpu_loads={"gpu": 0.4},
    )
    levels = {each.subject: each.level for each in judge_processors(facts)}
    assert levels == {
        "usable": Level.NOTE,
        "offline": Level.NOTE,
        "quota": Level.WARNING,
        "others": Level.OK,
        "GPU": Level.WARNING,
        "SMT": Level.NOTE,
        "isolated": Level.OK,
        "NUMA": Level.NOTE,
    }


def test_others_at_work_are_named_and_speak_against_a_bench(one_of: OneOf) -> None:
    busy = Activity(1.25, 0.0, (User(77, "ffmpeg", 1.1), User(5, "top", 0.1)))
    found = one_of(judge_processors(replace(FOUR, activity=busy)), "others")
    assert found.speaks_against_a_bench
    assert (
        "1.25 CPUs are busy with others' work: ffmpeg (77) 1.10, top (5) 0.10"
        in found.found
    )


@pytest.mark.parametrize(("cpus", "level"), [(0.39, Level.OK), (0.4, Level.WARNING)])
def test_a_tenth_of_the_processors_is_the_bound(
    cpus: float, level: Level, one_of: OneOf
) -> None:
    facts = replace(FOUR, activity=Activity(cpus, 0.0, ()))
    assert one_of(judge_processors(facts), "others").level is level


def test_time_that_the_host_took_speaks_against_a_bench(one_of: OneOf) -> None:
    facts = replace(FOUR, activity=Activity(0.0, 0.2, ()))
    assert one_of(judge_processors(facts), "stolen").speaks_against_a_bench


def test_irqbalance_matters_where_processors_are_kept_free(
    make_tree: MakeTree, one_of: OneOf
) -> None:
    tree = make_tree({f"{CPU}/isolated": "3"})
    activity = replace(QUIET, balances_interrupts=True)
    facts = examine_processors(tree, Measured(), activity)
    assert one_of(judge_processors(facts), "interrupts").level is Level.NOTE
    usual = replace(facts, isolated=frozenset())
    assert one_of(judge_processors(usual), "interrupts").level is Level.OK


def test_a_load_that_flickers_is_no_work(make_tree: MakeTree) -> None:
    load = Channel(Kind.LOAD, "gpu", "devfreq")
    measured = Measured([Reading(load, 0.4, 9)], [Reading(load, 0.01, 0)])
    assert examine_processors(make_tree({}), measured).gpu_loads == {"gpu": 0.01}


def test_a_quota_as_large_as_the_machine_does_no_harm(one_of: OneOf) -> None:
    found = one_of(judge_processors(replace(FOUR, quota_cores=4.0)), "quota")
    assert found.level is Level.OK


def test_who_has_the_gpu_open_is_noted_and_who_uses_it_is_a_warning(
    one_of: OneOf,
) -> None:
    users = GpuUsers(tuple(GpuUser("gpu0", n, f"/opt/p{n}", None) for n in range(5)))
    idle = replace(FOUR, gpu=users, gpu_loads={"gpu0": 0.0})
    noted = one_of(judge_processors(idle), "GPU")
    assert noted.level is Level.NOTE
    assert noted.found == "others have it open: p0 (0), p1 (1), p2 (2) and 2 more"
    busy = one_of(judge_processors(replace(idle, gpu_loads={"gpu0": 0.9})), "GPU")
    assert busy.speaks_against_a_bench
    assert busy.found.startswith("gpu0 90 % busy: p0 (0)")
    alone = replace(FOUR, gpu_loads={"gpu0": 0.0})
    assert one_of(judge_processors(alone), "GPU").level is Level.OK
