"""Standard output, also one that can no longer be written."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

log = logging.getLogger("edgepipe")


def say(text: str, *, as_json: bool) -> None:
    """Print, on stderr if stdout is for JSON.

    A reader that has gone or a full disk is no reason not to run.
    """
    with suppress(OSError):
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


def print_json(document: Mapping[str, Any]) -> bool:
    """Print a document; return whether whoever asked for it can have got it.

    A reader that has gone away did so on purpose.
    """
    try:
        print(json.dumps(document, indent=2, allow_nan=False), flush=True)
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        log.error("the summary cannot be printed: %s", error.strerror)
        silence_stdout()
        return False
    return True


def silence_stdout() -> None:
    """Send what is still buffered to nowhere.

    Python flushes once more on its way out, and would turn a second failure into an
    exit code of its own.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
