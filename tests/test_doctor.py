"""``edgepipe doctor SOURCE``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgepipe.cli import main
from edgepipe.pipeline.source import SourceInfo
from edgepipe.stages.sources.synthetic import SyntheticSource
from tests.stages.sources.conftest import make_clip

__all__ = ["make_clip"]

MakeClip = Callable[..., Path]
Told = tuple[int, dict[str, Any]]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Exit code and document."""

    def ask(*words: str | Path) -> Told:
        code = main(["doctor", *map(str, words), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


def found(told: dict[str, Any]) -> str:
    return "\n".join(f"{each['found']}: {each['does']}" for each in told["remarks"])


def test_a_clip_is_described(make_clip: MakeClip, doctor: Callable[..., Told]) -> None:
    code, told = doctor(make_clip(b_frames=2))
    assert code == 0
    assert told["info"]["codec"] == "mpeg4"
    assert told["rhythm"]["fps"] == 25
    assert told["rhythm"]["frames"] == told["looked_at"] == 12
    assert told["decode_ms"]["n"] == 12
    assert told["end"] == ["ended", ""]
    container = told["container"]
    assert (container["pixel_format"], container["announced"]) == ("yuv420p", 12)
    assert told["structure"]["reorder_depth"] == 1
    assert 1 <= told["structure"]["key_distance"][2] <= 6
    assert "up to 1 frames are decoded before one" in found(told)


def test_uneven_stamps_and_gaps_are_told(
    make_clip: MakeClip, doctor: Callable[..., Told]
) -> None:
    stamps = [0, 1, 2, 4, 5, 7, 8, 40, 41, 43, 44, 46]
    code, told = doctor(make_clip("clip.mkv", stamps=stamps))
    assert code == 0
    assert told["events"] == {"gap": 1}
    assert "frames do not come regularly" in found(told)
    assert "1 gap, the longest" in found(told)


def test_pictures_that_all_stand_alone_are_told_in_words(
    make_clip: MakeClip, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = make_clip("clip.avi", codec="mjpeg", pix_fmt="yuvj420p")
    assert main(["doctor", str(clip)]) == 0
    assert "every frame, at most 1 apart" in capsys.readouterr().out


def test_the_age_that_the_frames_of_a_camera_come_with_is_told(
    doctor: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = SourceInfo("rtsp:", 0, 0, 8, "h264", live=True, held_ns=125_000_000)
    monkeypatch.setattr(SyntheticSource, "info", info)
    _, told = doctor("synthetic:?frames=5")
    assert "the next one begins, 125 ms later: with a deadline" in found(told)


def test_a_person_is_told_how_long_a_camera_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info = SourceInfo("rtsp:", 0, 0, 8, "h264", live=True)
    monkeypatch.setattr(SyntheticSource, "info", info)
    assert main(["doctor", "synthetic:?frames=5"]) == 0
    said = capsys.readouterr()
    assert said.err == "looking at it for 10 s; Ctrl-C ends that sooner\n"
    assert "looking at it" not in said.out


def test_a_file_that_is_cut_off_is_trouble(
    make_clip: MakeClip, doctor: Callable[..., Told]
) -> None:
    clip = make_clip("clip.avi", codec="mjpeg", pix_fmt="yuvj420p", frames=30)
    data = clip.read_bytes()
    clip.write_bytes(data[: len(data) // 2])
    code, told = doctor(clip)
    assert code == 1
    assert told["end"][0] == "truncated"
    assert told["remarks"][0]["is_trouble"]


def test_pictures_on_their_side_are_told(
    make_clip: MakeClip, doctor: Callable[..., Told]
) -> None:
    _, told = doctor(make_clip(rotation=90))
    assert "lie on their side by 90 degrees: they are turned upright" in found(told)


def test_only_a_part_is_looked_at(doctor: Callable[..., Told]) -> None:
    code, told = doctor("synthetic:?frames=300&fps=30", "--seconds", "2")
    assert code == 0
    assert told["rhythm"]["frames"] == 60
    assert told["end"] == ["stopped", ""]


def test_a_recording_of_a_robot_lists_its_topics(
    tmp_path: Path, doctor: Callable[..., Told], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mcap")
    path = tmp_path / "a.mcap"
    assert main(["record", "synthetic:?frames=5", "-o", str(path)]) == 0
    capsys.readouterr()
    code, told = doctor(path)
    assert code == 0
    (topic,) = told["topics"]
    assert (topic["name"], topic["messages"]) == ("/synthetic", 5)


def test_a_person_gets_sentences(
    make_clip: MakeClip, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(make_clip(rotation=180))]) == 0
    out = capsys.readouterr().out
    assert "rate         25.000 fps, spread 0.00 ms" in out
    assert "- pictures lie on their side by 180 degrees" in out


def test_nothing_to_look_at_is_a_mistake(
    tmp_path: Path,
) -> None:
    assert main(["doctor", str(tmp_path / "nowhere.mp4")]) == 2
    assert main(["doctor", "synthetic:", "--seconds", "0"]) == 2


def test_packets_in_a_recording_are_looked_at_like_those_of_a_file(
    make_clip: MakeClip,
    tmp_path: Path,
    doctor: Callable[..., Told],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("mcap")
    clip, path = make_clip(b_frames=2), tmp_path / "a.mcap"
    assert main(["record", str(clip), "-o", str(path)]) == 0
    capsys.readouterr()
    assert doctor(path)[1]["structure"] == doctor(clip)[1]["structure"]
