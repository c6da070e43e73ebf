"""Where a run leaves its files."""

import logging
import os
from datetime import datetime
from pathlib import Path
from tempfile import gettempdir

from edgepipe.errors import EdgepipeError
from edgepipe.telemetry.run_folder import RunFolder

log = logging.getLogger("edgepipe")


def make_folder(
    parent: Path, command: str, started: datetime, *, instead: str | None
) -> RunFolder:
    """The run's folder below ``parent``, or else where one can be made.

    A robot with a read-only disk must start all the same. A place that somebody chose
    is not replaced by another one.

    Args:
        parent: Where it is wanted.
        command: The verb.
        started: Wall time, which gives it its name.
        instead: How to choose another place, if nobody chose this one; None: somebody
            did.

    Raises:
        EdgepipeError: It cannot be made.
    """
    try:
        return RunFolder.create(parent, command, started)
    except EdgepipeError as error:
        if instead is None:
            raise
        other = Path(gettempdir(), f"edgepipe-runs-{os.getuid()}")
        log.warning("%s: using %s (%s)", error, other, instead)
        return RunFolder.create(other, command, started)
