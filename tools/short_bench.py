"""Run the main job for ten seconds and check that every frame is accounted for.

The verdict may be INVALID on a busy machine (exit code 1) and that is no fault of
the code; a ledger that does not balance is.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LEFT = ("completed", "late", "in_flight")


def accounted(stream: dict[str, Any]) -> int:
    """Return how many frames of a stream of summary.json have a fate or a place."""
    given_up = sum(stream["dropped"].values()) + sum(stream["failed"].values())
    return int(given_up + sum(stream[name] for name in LEFT))


def problems(summary: dict[str, Any]) -> list[str]:
    """Return what is wrong with a run, one line each; nothing when all is well."""
    found = [] if summary["ledger"]["balanced"] else ["the ledger says: not balanced"]
    for name, stream in summary["streams"].items():
        if accounted(stream) != stream["captured"]:
            found.append(
                f"{name}: captured {stream['captured']}, "
                f"accounted for {accounted(stream)}"
            )
        if not stream["completed"]:
            found.append(f"{name}: no frame was completed")
    return found


def main() -> int:
    """Bench, read the summary, report."""
    edgepipe = str(Path(sys.executable).with_name("edgepipe"))
    with tempfile.TemporaryDirectory() as folder:
        command = [edgepipe, "bench", "--duration", "10s", "-c", "demo", "--json"]
        command += ["--set", f"telemetry.dir={folder}"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):
        return run.returncode
    summary = json.loads(run.stdout)
    found = problems(summary)
    print(f"bench: {summary['verdict']};", "; ".join(found) or "the ledger balances")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
