"""Processors and priority of the workers' threads, as far as the system allows."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from edgepipe.pipeline.placement import ANYWHERE, Placement

T = TypeVar("T")


def in_a_thread(do: Callable[[], T]) -> T:
    """What ``do`` returns in a thread that ends with it."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(do()))
    thread.start()
    thread.join(10)
    return found[0]


def test_a_thread_can_be_bound_to_a_processor_and_the_others_stay_free() -> None:
    before = os.sched_getaffinity(0)
    first = min(before)

    def bound() -> tuple[str, set[int]]:
        return Placement(cpus=(first,)).apply(), os.sched_getaffinity(0)

    assert in_a_thread(bound) == (f"cpus {first}", {first})
    assert os.sched_getaffinity(0) == before


def test_processors_that_do_not_exist_are_refused_in_words() -> None:
    said = in_a_thread(Placement(cpus=(1000,)).apply)
    assert said.startswith("cpus 1000 refused: ")


def refuse(*args: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_priority_that_is_not_allowed_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    said = in_a_thread(Placement(realtime_priority=10).apply)
    assert said == "SCHED_FIFO 10 refused: [Errno 1] Operation not permitted"


def test_a_priority_is_asked_for_the_calling_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int, int]] = []

    def grant(pid: int, policy: int, param: os.sched_param) -> None:
        asked.append((pid, policy, param.sched_priority))

    monkeypatch.setattr(os, "sched_setscheduler", grant)
    assert Placement(realtime_priority=7).apply() == "SCHED_FIFO 7"
    assert asked == [(0, os.SCHED_FIFO, 7)]


def test_nothing_is_asked_for_where_nothing_was_said() -> None:
    assert ANYWHERE.apply() == ""
