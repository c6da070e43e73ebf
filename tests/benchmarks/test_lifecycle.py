"""Fifty cycles of start and stop leave nothing behind; a thousand are a benchmark."""

import lifecycle


def test_fifty_cycles_leave_no_thread_and_no_descriptor() -> None:
    left = lifecycle.repeat(lifecycle.bare, 50)
    assert (left["threads_left"], left["fds_left"]) == (0, 0)
