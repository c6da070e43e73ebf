from edgepipe.telemetry.machine.activity import (
    Process,
    Snapshot,
    activity_between,
    take_snapshot,
)

from .conftest import MakeTree

BEFORE = Snapshot(1000, 0, 10_000, 50, {7: Process("ffmpeg", 500), 8: Process("sh", 0)})


def test_the_kernel_s_counters_are_taken_apart(make_tree: MakeTree) -> None:
    tree = make_tree(
        {
            "proc/stat": "cpu  10 1 20 900 30 4 5 6 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0",
            "proc/self/stat": "42 (python) R 1 2 3 4 5 6 7 8 9 10 11 12 0 0 20",
            "proc/42/stat": "42 (python) R 1 2 3 4 5 6 7 8 9 10 11 12 0 0 20",
            "proc/7/stat": "7 (a ) (b) S 1 2 3 4 5 6 7 8 9 10 100 200 0 0 20",
            "proc/9/stat": "9 (gone",
        }
    )
    seen = take_snapshot(tree)
    assert seen == Snapshot(40, 6, 976, 23, {7: Process("a ) (b", 300)})


def test_without_counters_there_is_no_snapshot(make_tree: MakeTree) -> None:
    assert take_snapshot(make_tree({})) is None
    assert take_snapshot(make_tree({"proc/stat": "cpu 1 2 3 4 5 6 x 8"})) is None


def test_what_others_do_is_told_in_processors() -> None:
    """A second on two processors, at 100 ticks a second."""
    processes = {7: Process("ffmpeg", 560), 8: Process("sh", 1), 9: Process("new", 40)}
    after = Snapshot(1130, 10, 10_200, 80, processes)
    seen = activity_between(BEFORE, after, processors=2)
    assert seen is not None
    assert seen.others_cpus == 1.0
    assert seen.stolen_cpus == 0.1
    assert [(user.pid, user.cpus) for user in seen.top] == [(7, 0.6)]
    assert not seen.balances_interrupts
    idle = after._replace(processes={9: Process("irqbalance", 1)})
    seen = activity_between(BEFORE, idle, processors=2)
    assert seen is not None
    assert seen.balances_interrupts


def test_the_busiest_three_are_named() -> None:
    after = {n: Process(f"p{n}", 10 * n) for n in range(1, 9)}
    before = {n: Process(f"p{n}", 0) for n in range(1, 9)}
    seen = activity_between(
        Snapshot(0, 0, 0, 0, before), Snapshot(100, 0, 100, 0, after), 1
    )
    assert seen is not None
    assert [user.pid for user in seen.top] == [8, 7, 6]


def test_counters_that_stand_still_or_go_back_tell_nothing() -> None:
    assert activity_between(BEFORE, BEFORE, 2) is None
    assert activity_between(BEFORE, BEFORE._replace(total=0), 2) is None
    odd = BEFORE._replace(total=10_100, busy=0, own=0)
    seen = activity_between(BEFORE, odd, 1)
    assert seen is not None
    assert (seen.others_cpus, seen.stolen_cpus) == (0.0, 0.0)
