import os
import subprocess
import sys
from pathlib import Path

LOOK = """
import sys, threading
from edgepipe.models.openvino_library import import_openvino
assert import_openvino().Core
print(*[thread.name for thread in threading.enumerate()])
print(*[name for name in sys.modules if "openvino_telemetry" in name])
"""


def test_loading_openvino_sends_nothing_home_and_writes_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOOK],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert run.stdout.splitlines() == ["MainThread", ""]
    assert list(tmp_path.iterdir()) == []
