"""What befalls a recording, from the file to the summary, for whoever reads that."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from av.video.frame import VideoFrame

from edgepipe.cli import main
from edgepipe.telemetry.summary_schema import validate


def jpegs(*sizes: tuple[int, int]) -> list[bytes]:
    """One noisy image of each size."""
    rng = np.random.default_rng(3)
    return [
        cv2.imencode(".jpg", rng.integers(0, 255, (h, w, 3), np.uint8))[1].tobytes()
        for w, h in sizes
    ]


def stream(name: str, path: Path, **source: Any) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"uri": str(path), "pace": "fast", **source},
        "deadline": "60s",
        "queue": {"capacity": 2, "overflow": "block"},
    }


def with_a_pause(path: Path) -> Path:
    output: Any
    with av.open(str(path), "w") as output:
        video = output.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        video.codec_context.time_base = Fraction(1, 25)
        for stamp in (0, 1, 2, 52, 53):
            frame = VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = stamp, Fraction(1, 25)
            output.mux(video.encode(frame))
        output.mux(video.encode(None))
    return path


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of one run over several files."""
    folder = tmp_path_factory.mktemp("events")
    images = jpegs(*[(64, 48)] * 3, *[(96, 80)] * 3, (64, 48))
    images[1] = images[1][: len(images[1]) // 2]
    sizes = folder / "sizes.mjpeg"
    sizes.write_bytes(b"".join(images))
    streams = [
        stream("sizes", sizes, fps=10),
        stream("pause", with_a_pause(folder / "pause.mkv")),
    ]
    config = {
        "version": 1,
        "streams": streams,
        "model": {"path": "scene-tiny"},
        "telemetry": {"dir": str(folder / "runs")},
        "sinks": [{"kind": "null"}],
    }
    path = folder / "run.json"
    path.write_text(json.dumps(config))
    assert main(["run", str(path)]) == 0
    (run,) = (folder / "runs").iterdir()
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    validate(found)
    assert "What befell the sources" in (run / "report.html").read_text()
    return found


def test_pictures_of_several_sizes_go_through_one_stream(
    summary: dict[str, Any],
) -> None:
    sizes = summary["streams"]["sizes"]
    assert sizes["captured"] == 7
    assert sizes["completed"] == 6
    assert sizes["dropped"] == {"damaged": 1}
    assert sizes["source"]["events"] == {"damage": 1, "end": 1, "resolution": 2}
    assert summary["stage_errors"] == {}


def test_each_event_is_listed_with_the_frame_that_it_concerns(
    summary: dict[str, Any],
) -> None:
    told = [
        (event["kind"], event["detail"], event["pts_s"], event["amount_s"])
        for event in summary["source_events"]["events"]
        if event["kind"] not in ("damage", "end")
    ]
    assert sorted(told) == [
        ("gap", "nothing for 2.000 s", pytest.approx(2.08), pytest.approx(1.96)),
        ("resolution", "64x48 becomes 96x80", pytest.approx(0.3), 0),
        ("resolution", "96x80 becomes 64x48", pytest.approx(0.6), 0),
    ]
    assert summary["source_events"]["left_out"] == 0
