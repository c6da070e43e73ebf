"""Logs that repeat for hours, written through a real handler."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from edgepipe.telemetry.folding import Folder, LineBudget
from edgepipe.telemetry.folding_handler import FoldingHandler

S = 1_000_000_000
PERIOD_NS = S // 30
HOUR = 108_000
"""Frames in an hour."""


class Log:
    """A logger of its own whose lines a test reads, at the time that a test sets."""

    def __init__(
        self, target: logging.Handler | None = None, folder: Folder | None = None
    ) -> None:
        self.now_ns = 0
        self.stream = io.StringIO()
        self.handler = FoldingHandler(
            target or logging.StreamHandler(self.stream), lambda: self.now_ns, folder
        )
        self.handler.setFormatter(logging.Formatter("edgepipe: %(message)s"))
        self.logger = logging.Logger("edgepipe")
        self.logger.addHandler(self.handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def for_an_hour(self, say: Callable[[int], None]) -> None:
        for number in range(HOUR):
            self.now_ns = number * PERIOD_NS
            say(number)
        self.handler.close()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


@pytest.fixture
def bounds(cases: Path) -> dict[str, int]:
    """What the recorded case allows an hour of errors at 30 frames a second."""
    found: dict[str, int] = json.loads((cases / "E11/expected.json").read_text())
    return found


def check(text: str, bounds: dict[str, int]) -> None:
    assert len(text.encode()) <= bounds["log_bytes_max"]
    assert len(set(text.splitlines())) <= bounds["distinct_lines_max"]


def fail(number: int) -> None:
    if number < 0:
        raise AssertionError
    raise ValueError(f"damaged macroblock {number * 7919 % 1000}")


def fail_aloud(log: Log, number: int) -> None:
    try:
        fail(number)
    except (ValueError, AssertionError):
        log.logger.exception("stage 'infer' failed on frame %d", number)
        raise


def test_an_hour_of_equal_errors_is_a_few_lines_and_the_true_number_is_told(
    log: Log, bounds: dict[str, int]
) -> None:
    log.for_an_hour(lambda _: log.logger.error("decode error: invalid data"))
    check(log.text, bounds)
    assert log.handler.seen == HOUR
    assert log.lines[0] == "edgepipe: decode error: invalid data"
    told = [int(line.split()[2]) for line in log.lines[1:]]
    assert sum(told) + 1 == HOUR
    assert len(told) == 4


def test_an_hour_of_growing_numbers_is_folded_too(
    log: Log, bounds: dict[str, int]
) -> None:
    log.for_an_hour(lambda n: log.logger.error("frame %d at %.3f s", n, n / 30))
    check(log.text, bounds)
    assert len(log.lines) == 5
    assert log.lines[1] == (
        "edgepipe: repeated 301 times in 10.0 s: frame 301 at 10.033 s"
    )


def test_minutes_of_tracebacks_show_one(log: Log, bounds: dict[str, int]) -> None:
    for number in range(3000):
        log.now_ns = number * PERIOD_NS
        with suppress(ValueError):
            fail_aloud(log, number)
    log.handler.close()
    check(log.text, bounds)
    assert log.text.count("Traceback") == 1
    assert "ValueError: damaged macroblock 0" in log.text
    assert "repeated 301 times in 10.0 s: stage 'infer' failed" in log.text


def test_an_hour_of_distinct_messages_stays_in_bounds_as_well(
    log: Log, bounds: dict[str, int]
) -> None:
    words = [f"{chr(97 + a)}{chr(97 + b)}{chr(97 + c)}" for a in range(26)
             for b in range(26) for c in range(15)]  # fmt: skip
    log.for_an_hour(lambda n: log.logger.error("odd: %s", words[n % 10_000]))
    check(log.text, bounds)
    assert log.handler.seen == HOUR
    last = log.lines[-1]
    assert last.endswith("messages of other kinds")
    assert int(last.split()[2]) > 10_000


def test_one_huge_message_is_cut_and_says_so(log: Log) -> None:
    log.logger.error("x" * 1_000_000)
    assert len(log.text) < 2100
    assert "(998000 characters left out)" in log.text


def test_a_stack_of_any_depth_is_cut_and_its_end_is_kept(log: Log) -> None:
    def deep(number: int) -> None:
        if number:
            deeper(number - 1)
        raise ValueError("at the bottom")

    def deeper(number: int) -> None:
        deep(number)

    try:
        deep(90)
    except ValueError:
        log.logger.exception("broken")
    assert "lines left out)" in log.text
    assert log.lines[-1] == "ValueError: at the bottom"
    assert len(log.lines) <= 62


def test_the_same_words_from_two_places_are_two_kinds(log: Log) -> None:
    for number in (1, -1):
        with suppress(ValueError, AssertionError):
            fail_aloud(log, number)
    assert log.text.count("Traceback") == 2


def test_what_stopped_is_told_with_the_next_message_of_any_kind(log: Log) -> None:
    for second in range(4):
        log.now_ns = second * S
        log.logger.warning("camera %d is dark", second)
    log.now_ns = 60 * S
    log.logger.warning("all is well")
    log.handler.flush()
    assert log.lines == [
        "edgepipe: camera 0 is dark",
        "edgepipe: all is well",
        "edgepipe: repeated 3 times in 2.0 s: camera 3 is dark",
    ]


def test_levels_and_loggers_are_kept_apart(log: Log) -> None:
    log.logger.warning("same")
    log.logger.error("same")
    other = logging.Logger("edgepipe.telemetry")
    other.addHandler(log.handler)
    other.warning("same")
    assert log.lines == ["edgepipe: same"] * 3


def test_wrong_arguments_lose_neither_message_nor_place(log: Log) -> None:
    log.logger.error("frame %d", "seven")
    assert log.lines == ["edgepipe: frame %d (with unfit arguments)"]


def test_many_threads_at_once_lose_no_message(log: Log) -> None:
    def shout(name: str) -> None:
        for number in range(500):
            log.logger.warning("worker %s saw %d", name, number)

    threads = [Thread(target=shout, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.handler.close()
    assert log.handler.seen == 4000
    told = [int(line.split()[2]) for line in log.lines if "repeated" in line]
    assert sum(told) + 8 == 4000


def test_a_file_is_bounded_by_the_same_handler(
    tmp_path: Path, bounds: dict[str, int]
) -> None:
    path = tmp_path / "edgepipe.log"
    log = Log(logging.FileHandler(path, encoding="utf-8"))
    log.for_an_hour(lambda n: log.logger.error("decode error in frame %d", n))
    check(path.read_text(), bounds)
    assert path.read_text().count("decode error") == 5


def test_months_of_distinct_warnings_are_bounded_by_time() -> None:
    log = Log(folder=Folder(LineBudget(burst=120, line_ns=60 * S)))
    for second in range(0, 12 * 3600, 10):
        log.now_ns = second * S
        word = "".join(chr(97 + int(digit)) for digit in str(second))
        log.logger.warning("odd %s", word)
    log.handler.close()
    assert 500 < len(log.lines) < 12 * 60 + 120


def test_the_command_line_folds_what_a_library_says_at_its_exit(tmp_path: Path) -> None:
    script = tmp_path / "noisy.py"
    script.write_text(
        "import atexit, logging, sys\n"
        "from edgepipe import cli\n"
        "log = logging.getLogger('edgepipe')\n"
        "try:\n"
        "    cli.main(['--version'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "atexit.register(lambda: log.error('at the very end'))\n"
        "for number in range(5000):\n"
        "    log.error('frame %d is damaged', number)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert lines[0] == "edgepipe: frame 0 is damaged"
    assert lines[1] == "edgepipe: at the very end"
    assert lines[2].startswith("edgepipe: repeated 4999 times in ")
    assert len(lines) == 3
