"""A stage that does not come back, seen from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_a_sink_that_hangs_costs_its_stream_and_makes_the_run_invalid(
    tmp_path: Path,
) -> None:
    """The reader of a pipe reads nothing: the write into the full pipe never ends."""
    pipe = tmp_path / "results.pipe"
    os.mkfifo(pipe)
    config = {
        "version": 1,
        "streams": [
            {
                "id": "scene",
                "source": {"uri": "synthetic:?seed=1&frames=2000", "pace": "fast"},
                "deadline": "60s",
            }
        ],
        "model": {"path": "scene-tiny"},
        "run": {"hang_after": "500ms"},
        "sinks": [{"kind": "jsonl", "path": str(pipe)}],
        "telemetry": {"dir": str(tmp_path / "runs")},
    }
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config))  # JSON is YAML
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "edgepipe", "run", str(file), "--json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(reader)
    summary = json.loads(done.stdout)
    stream = summary["streams"]["scene"]
    assert done.returncode == 1
    assert stream["captured"] == 2000
    assert stream["completed"] + stream["failed"]["hung"] == 2000
    assert summary["process"]["hung_threads"] == 1
    assert summary["ledger"]["balanced"] is True
    assert summary["stage_errors"]["deliver"]["first"].startswith("no answer for 0.")
    assert "stage deliver: no answer for" in done.stderr
    assert any("threads did not come back" in reason for reason in summary["reasons"])
