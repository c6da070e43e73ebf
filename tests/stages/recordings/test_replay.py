"""``edgepipe replay``: recordings through the pipeline."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mcap.reader import make_reader

from edgepipe.cli import main
from edgepipe.pipeline.source import Arrival
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.robots import replayable
from edgepipe.telemetry.frame_log import read_frames

from . import messages as make

MakeClip = Callable[..., Path]
QUICK = [
    *("--set", "tracker.kind=none"),
    *("--set", "model.path=scene-tiny"),
]


LATER = 250_000_000


def two_cameras(path: Path) -> Path:
    """The right camera begins 250 ms after the left one."""
    left = make.stills(6, make.proto_image)
    right = [
        (at + LATER, make.proto_image(at + LATER, "png", make.png(make.flat(9))))
        for at, _ in make.stills(4, make.proto_image)
    ]
    kind = ("foxglove.CompressedImage", "protobuf")
    return make.write_mcap(path, ("/left", *kind, left), ("/right", *kind, right))


def test_the_topics_of_a_recording_have_one_clock(tmp_path: Path) -> None:
    parts = replayable(str(two_cameras(tmp_path / "a.mcap")))
    assert [part.stream for part in parts] == ["left", "right"]
    sources = [open_source(part.uri) for part in parts]
    firsts = [source.next_arrival() for source in sources]
    assert [a.pts_ns for a in firsts if isinstance(a, Arrival)] == [
        0,
        LATER + 5_000_000,
    ]
    assert len({source.info.timeline for source in sources}) == 1
    assert [source.info.origin_ns for source in sources] == [make.SECOND] * 2
    for source in sources:
        source.close()


def test_a_topic_by_itself_begins_at_once(tmp_path: Path) -> None:
    (part,) = replayable(str(two_cameras(tmp_path / "a.mcap")), ["/right"])
    source = open_source(part.uri)
    arrival = source.next_arrival()
    assert isinstance(arrival, Arrival)
    assert arrival.pts_ns == 0
    assert source.info.timeline is None
    source.close()


@pytest.mark.slow
def test_spacing_and_offset_of_two_streams_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = two_cameras(tmp_path / "a.mcap")
    runs = tmp_path / "runs"
    words = ["replay", str(recording), "--set", f"telemetry.dir={runs}", *QUICK]
    code = main([*words, "--json", "--set", "sinks=[{kind: mcap, path: r.mcap}]"])
    told = json.loads(capsys.readouterr().out)
    assert code == 0, told["reasons"]
    assert told["command"] == "replay"
    assert {k: v["captured"] for k, v in told["streams"].items()} == {
        "left": 6,
        "right": 4,
    }
    (folder,) = runs.iterdir()
    frames = read_frames(folder / "frames.arrow").records()
    captured = {(f.stream, f.sequence): f.capture_ns for f in frames}
    zero_ns = captured["left", 0]
    for k in range(6):
        assert abs(captured["left", k] - zero_ns - k * 10**8) < 1_000_000
    for k in range(4):
        expected_ns = LATER + 5_000_000 + k * 10**8
        assert abs(captured["right", k] - zero_ns - expected_ns) < 1_000_000
    with (folder / "r.mcap").open("rb") as file:
        topics = {c.topic for _, c, _ in make_reader(file).iter_messages()}
    assert topics == {"/left", "/left/objects", "/right", "/right/objects"}


def test_a_stream_that_the_recording_lacks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "robot.yaml"
    config.write_text(
        "version: 1\nstreams:\n"
        "  - {id: left, source: {uri: a.mp4}}\n  - {id: up, source: {uri: b.mp4}}\n"
    )
    recording = two_cameras(tmp_path / "a.mcap")
    assert main(["replay", str(recording), "-c", str(config)]) == 2
    said = capsys.readouterr().err
    assert f"stream up is not in {recording} (it has left, right)" in said


def test_a_video_is_a_recording_of_one_stream(make_clip: MakeClip) -> None:
    path = make_clip()
    (part,) = replayable(str(path))
    assert part.uri == str(path)
