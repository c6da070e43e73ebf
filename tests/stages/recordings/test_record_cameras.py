"""Cameras are recorded with what they send, at the times at which they took it."""

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from edgepipe.cli import main
from edgepipe.stages.recordings.mcap_file import McapFile
from edgepipe.stages.sources.open import open_source
from tests.stages.sources.test_rtsp import Serve, serve

from .reading import read

__all__ = ["serve"]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        ("h264", "h264 packets as they came"),
        ("h265", "hevc packets as they came"),
        ("jpeg", "mjpeg packets as they came"),
    ],
)
def test_a_network_camera_is_recorded_as_it_sends(
    tmp_path: Path,
    serve: Serve,
    codec: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = serve("--codec", codec)
    path = tmp_path / "a.mcap"
    before_ns = time.time_ns()
    code = main(["record", server.uri, "-o", str(path), "--duration", "1500ms"])
    after_ns = time.time_ns()
    said = capsys.readouterr().out
    assert code == 0, said
    assert words in said
    source = open_source(str(path))
    zero_ns = source.info.origin_ns
    times, greys, _ = read(source)
    assert len(times) > 5
    assert None not in greys  # also where the server cuts frames into two
    rising = [at for at in times if at is not None]
    assert all(b > a for a, b in pairwise(rising))
    # Stamps are wall times of the captures, from the first picture on.
    assert before_ns - 10**9 < zero_ns < zero_ns + rising[-1] < after_ns
    file = McapFile(path)
    assert set(file.metadata["edgepipe.clocks"]) == {"monotonic_ns", "wall_ns"}
    assert [topic.metadata["edgepipe.clock"] for topic in file.topics] == ["wall"]
    file.close()


def test_a_password_is_in_no_recording(tmp_path: Path, serve: Serve) -> None:
    server = serve("--user", "user:secret")
    path = tmp_path / "a.mcap"
    uri = server.uri.replace("rtsp://", "rtsp://user:secret@")
    assert main(["record", uri, "-o", str(path), "--duration", "500ms"]) == 0
    assert b"secret" not in path.read_bytes()


def test_a_camera_that_is_not_there_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.mcap"
    assert main(["record", "rtsp://127.0.0.1:1/live", "-o", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not path.exists()


def test_a_camera_that_is_not_there_costs_the_others_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.mcap"
    words = ["synthetic:?frames=3", "rtsp://127.0.0.1:1/live", "-o", str(path)]
    assert main(["record", *words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["missing"] == ["rtsp"]
    assert told["streams"]["synthetic"]["messages"] == 3
