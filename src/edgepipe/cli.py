"""The ``edgepipe`` command: reads the arguments, calls a verb, sets the exit code."""

import argparse
import errno
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import NoReturn, cast

from edgepipe.commands.output import silence_stdout
from edgepipe.commands.signals import Signals
from edgepipe.errors import ConfigErrors, EdgepipeError, InUseError
from edgepipe.telemetry.folding_handler import FoldingHandler

VERBS = ("run", "bench", "record", "replay", "doctor", "simulate", "model", "config")
"""Each is a module of ``edgepipe.commands`` with ``add_to(subparsers)``."""

PASSED, IN_USE, USAGE, CRASHED, SERVICE_USAGE = 0, 1, 2, 70, 78
"""A verb returns 1 itself when the verdict failed; 70 and 78 are from sysexits.h."""

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code.

    0 passed; 1 ran, but the verdict failed, or another edgepipe has the camera; 2
    usage, configuration or input (78 with ``--service``, as systemd expects); 70 a bug
    of edgepipe; 130 or 143 after SIGINT or SIGTERM.
    """
    with Signals() as signals:
        _limit_numeric_libraries()
        for stream in (sys.stdout, sys.stderr):
            # A terminal that lacks a letter of a stream's id is no reason to stop.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        _log_to_stderr()
        words = sys.argv[1:] if argv is None else argv
        wrong = SERVICE_USAGE if "--service" in words else USAGE
        args = _parser(wrong).parse_args(words)
        args.signals = signals
        return _call(args, wrong)


def _call(args: argparse.Namespace, wrong: int) -> int:
    """Run the verb; turn what it raises into messages and exit codes."""
    try:
        return cast(Command, args.run)(args)
    except InUseError as error:
        print(f"edgepipe: {error}", file=sys.stderr)
        return IN_USE
    except EdgepipeError as error:
        problems = error.errors if isinstance(error, ConfigErrors) else (error,)
        for problem in problems:
            print(f"edgepipe: {problem}", file=sys.stderr)
        return wrong
    except BrokenPipeError:
        # The reader of our output has gone (``| head``): not worth a traceback.
        silence_stdout()
        return PASSED
    except Exception as error:  # the process edge: a bug, told apart from a bad verdict
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            print(f"edgepipe: {error.strerror}", file=sys.stderr)
            silence_stdout()
            return wrong
        logging.getLogger("edgepipe").critical(
            "this is a bug in edgepipe", exc_info=True
        )
        return CRASHED


def _log_to_stderr() -> None:
    """What repeats is folded: a service's journal must not grow with every frame."""
    folding = FoldingHandler(logging.StreamHandler(sys.stderr), time.monotonic_ns)
    logging.basicConfig(
        level=logging.WARNING, format="edgepipe: %(message)s", handlers=[folding]
    )


def _limit_numeric_libraries() -> None:
    """One thread for each BLAS and OpenMP call; what the user set wins.

    These libraries read their environment when they are first imported and would
    otherwise start a thread for every core behind the scheduler's back.
    """
    for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR"):
        os.environ.setdefault(f"{name}_NUM_THREADS", "1")


class _Version(argparse.Action):
    """Print the version; found out only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print and leave."""
        import edgepipe

        print(f"edgepipe {edgepipe.__version__}")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """Exits with a code of our choice on wrong usage."""

    wrong = USAGE

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave; argparse itself only knows 0 and 2."""
        super().exit(self.wrong if status else 0, message)


def _parser(wrong: int) -> argparse.ArgumentParser:
    _Parser.wrong = wrong
    parser = _Parser(
        prog="edgepipe", description="Real-time edge vision with deadlines."
    )
    parser.add_argument("--version", action=_Version)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in VERBS:
        importlib.import_module(f"edgepipe.commands.{name}").add_to(verbs)
    return parser
