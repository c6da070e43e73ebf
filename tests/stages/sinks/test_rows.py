"""Rows reach the file whole or not at all, whatever the disk does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from edgepipe.stages.sinks.rows import RowFile

Limit = Callable[[int], AbstractContextManager[None]]


def test_a_row_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "a" / "b" / "rows.txt")
    rows.write(b"one\n")
    assert (tmp_path / "a" / "b" / "rows.txt").read_bytes() == b"one\n"
    rows.close()
    rows.close()


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("old and long\n")
    RowFile(path).close()
    assert path.read_bytes() == b""


def test_a_row_cut_by_a_full_disk_is_taken_back_and_the_next_is_whole(
    tmp_path: Path, disk_of: Limit
) -> None:
    path = tmp_path / "rows.txt"
    rows = RowFile(path)
    rows.write(b"first\n")
    with disk_of(10), pytest.raises(OSError, match="too large"):
        rows.write(b"second\n")
    assert path.read_bytes() == b"first\n"
    rows.write(b"third\n")
    assert path.read_bytes() == b"first\nthird\n"
    rows.close()


def test_a_device_that_is_always_full_raises_for_every_row() -> None:
    rows = RowFile(Path("/dev/full"))
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            rows.write(b"row\n")
    rows.close()


def test_in_a_pipe_the_piece_of_a_row_stays_on_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    rows = RowFile(fifo)
    os.set_blocking(rows.fileno(), False)
    # A pipe that nobody empties takes a part of the row and no more.
    with pytest.raises(BlockingIOError):
        rows.write(b"x" * 1_000_000 + b"\n")
    piece = os.read(reader, 1_000_000)
    rows.write(b"next\n")
    assert os.read(reader, 100) == b"\nnext\n"
    assert set(piece) == {ord("x")}
    rows.close()
    os.close(reader)


def test_rows_survive_a_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    script = (
        "import os, sys; from pathlib import Path;"
        "from edgepipe.stages.sinks.rows import RowFile;"
        "rows = RowFile(Path(sys.argv[1]));"
        "[rows.write(b'row\\n') for _ in range(100)];"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"row\n" * 100
