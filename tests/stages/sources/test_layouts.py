"""Folders as data sets have them."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.stages.sources.folder import FolderSource
from edgepipe.stages.sources.open import open_source

from .conftest import STEP, Played, play

EUROC = 1403636579763555584
FRAME_NS = 50_000_000


def images(folder: Path, *names: str) -> None:
    """Images of luma 20, 25, 30 ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        pixels = np.full((6, 8), 20 + STEP * k, np.uint8)
        assert cv2.imwrite(str(folder / name), pixels)


def opened(path: Path, fps: float | None = None, *, loop: bool = False) -> FolderSource:
    return FolderSource(path, str(path), fps=fps, loop=loop)


def said(played: Played) -> str:
    return "\n".join(played.source.warnings)


def euroc(root: Path, order: Sequence[int] = range(4), keep: int = 4) -> Path:
    """A camera's folder; the list may name more than there is."""
    names = [f"{EUROC + k * FRAME_NS}.png" for k in range(4)]
    camera = root / "mav0" / "cam0"
    images(camera / "data", *names[:keep])
    lines = [f"{EUROC + k * FRAME_NS},{names[k]}" for k in order]
    text = "\r\n".join(["#timestamp [ns],filename", *lines, ""])
    (camera / "data.csv").write_text(text)
    return camera


@pytest.mark.parametrize("inside", ["", "mav0", "mav0/cam0", "mav0/cam0/data"])
def test_a_list_beside_the_folder_names_images_and_their_times(
    tmp_path: Path, inside: str
) -> None:
    euroc(tmp_path)
    source = opened(tmp_path / inside)
    found = play(source)
    assert found.numbers == [0, 1, 2, 3]
    assert found.times_ms == [0, 50, 100, 150]
    assert source.info.fps == 20
    assert "data.csv: 4 time stamps in ns" in said(found)
    assert found.events == []


def test_an_image_that_is_missing_leaves_a_gap(tmp_path: Path) -> None:
    camera = euroc(tmp_path)
    (camera / "data" / f"{EUROC + FRAME_NS}.png").unlink()
    found = play(opened(camera))
    assert found.numbers == [0, 2, 3]
    assert found.times_ms == [0, 100, 150]
    (gap,) = found.events
    assert gap.kind.value == "gap"
    assert gap.detail == "an image is missing"
    assert gap.pts_ns == 100_000_000
    assert "1 of 4 images are missing" in said(found)


def test_images_missing_at_the_end_make_it_truncated(tmp_path: Path) -> None:
    found = play(opened(euroc(tmp_path, keep=2)))
    assert found.numbers == [0, 1]
    assert found.source.end_state == ("truncated", "the last 2 images are missing")


def test_a_list_out_of_order_is_sorted(tmp_path: Path) -> None:
    found = play(opened(euroc(tmp_path, order=[2, 0, 3, 1])))
    assert (found.numbers, found.times_ms) == ([0, 1, 2, 3], [0, 50, 100, 150])
    assert "not in order and have been sorted" in said(found)


def test_images_that_the_list_does_not_name_are_left_out(tmp_path: Path) -> None:
    found = play(opened(euroc(tmp_path, order=[0, 1])))
    assert found.numbers == [0, 1]
    assert "2 images are not in it and are left out" in said(found)


def test_a_list_of_other_images_is_refused(tmp_path: Path) -> None:
    images(tmp_path, "a.png")
    (tmp_path / "data.csv").write_text("1,x.png\n2,y.png\n")
    with pytest.raises(InputError, match=r"data\.csv: it names none of 1 images"):
        opened(tmp_path)


DATES = [f"2011-09-26 13:02:25.{k:01d}64389445" for k in range(4)]


@pytest.mark.parametrize("inside", ["", "image_02", "image_02/data"])
def test_dates_line_by_line(tmp_path: Path, inside: str) -> None:
    for camera in ("image_00", "image_02"):
        images(tmp_path / camera / "data", *(f"{k:010d}.png" for k in range(4)))
        (tmp_path / camera / "timestamps.txt").write_text("\n".join(DATES))
    found = play(opened(tmp_path / inside))
    assert found.numbers == [0, 1, 2, 3]
    assert found.times_ms == [0, 100, 200, 300]
    assert "timestamps.txt: 4 time stamps as dates" in said(found)
    if inside != "image_02/data":
        assert "images are those in" in said(found)


def test_a_missing_image_is_found_by_its_number(tmp_path: Path) -> None:
    images(tmp_path / "image_2", "000000.png", "000001.png", "000003.png")
    (tmp_path / "times.txt").write_text("0.0e+00\n1.0e-01\n2.0e-01\n3.0e-01\n")
    found = play(opened(tmp_path))
    assert found.times_ms == [0, 100, 300]
    assert [kind for kind, _ in found.kinds] == ["gap"]


@pytest.mark.parametrize(
    "names", [["a.png", "b.png"], ["1.png", "2.png", "3.png", "4.png"]]
)
def test_stamps_that_cannot_be_matched_are_refused(
    tmp_path: Path, names: list[str]
) -> None:
    images(tmp_path, *names)
    (tmp_path / "timestamps.txt").write_text("0.1\n0.2\n0.3\n")
    says = f"timestamps.txt: 3 time stamps for {len(names)} images"
    with pytest.raises(InputError, match=says):
        opened(tmp_path)


def test_stamps_line_by_line_that_do_not_rise_are_moved_up(tmp_path: Path) -> None:
    images(tmp_path, *(f"{letter}.png" for letter in "abcdef"))
    (tmp_path / "timestamps.txt").write_text("1.0\n1.1\n1.1\n1.3\n1.2\n1.5\n")
    found = play(opened(tmp_path))
    assert found.numbers == [0, 1, 2, 3, 4, 5]
    assert [kind for kind, _ in found.kinds] == ["duplicate", "regression"]
    assert min(np.diff(found.times_ms)) > 10
    assert "2 time stamps did not rise" in said(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no time stamps in it"), ("0.1\nx y\n", "line 2: expected a time stamp")],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    images(tmp_path, "a.png")
    (tmp_path / "timestamps.txt").write_text(text)
    with pytest.raises(InputError, match=f"timestamps.txt: {says}"):
        opened(tmp_path)


# --- a rate ---------------------------------------------------------------------------


def mot(root: Path, numbers: Sequence[int], length: int, rate: str = "20") -> Path:
    images(root / "img1", *(f"{k:06d}.jpg" for k in numbers))
    (root / "seqinfo.ini").write_text(
        f"[Sequence]\nname=X\nimDir=img1\nframeRate={rate}\nseqLength={length}\n"
    )
    return root


@pytest.mark.parametrize("inside", ["", "img1"])
def test_numbered_images_with_a_rate(tmp_path: Path, inside: str) -> None:
    source = opened(mot(tmp_path, [1, 2, 3, 4], 4) / inside)
    found = play(source)
    assert found.numbers == [0, 1, 2, 3]
    assert found.times_ms == [0, 50, 100, 150]
    assert source.info.fps == 20
    assert "seqinfo.ini: 20 fps" in said(found)


def test_numbers_that_lack_are_gaps_and_keep_their_time(tmp_path: Path) -> None:
    found = play(opened(mot(tmp_path, [1, 2, 5, 6], 8)))
    assert found.times_ms == [0, 50, 200, 250]
    assert [(e.kind.value, e.detail) for e in found.events] == [
        ("gap", "2 images are missing")
    ]
    assert found.source.end_state[0] == "truncated"
    assert "4 of 8 images are missing" in said(found)


def test_a_rate_that_is_given_takes_the_place_of_the_data_set_s(
    tmp_path: Path,
) -> None:
    found = play(opened(mot(tmp_path, [1, 2], 2), fps=10))
    assert found.times_ms == [0, 100]
    assert "fps 10 takes the place of 20" in said(found)


@pytest.mark.parametrize("rate", ["", "fast", "0", "nan"])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, rate: str) -> None:
    with pytest.raises(InputError, match=r"seqinfo\.ini: .*frameRate"):
        opened(mot(tmp_path, [1], 1, rate))


def test_a_given_rate_is_not_used_where_there_are_stamps(tmp_path: Path) -> None:
    found = play(opened(euroc(tmp_path), fps=5))
    assert found.times_ms[1] == 50
    assert "fps 5 is not used: there are time stamps" in said(found)


def test_a_loop_goes_on_in_time_with_its_gaps(tmp_path: Path) -> None:
    found = play(opened(mot(tmp_path, [1, 2, 4], 4), loop=True), most=7)
    assert found.times_ms == [0, 50, 150, 200, 250, 350, 400]
    assert [kind for kind, _ in found.kinds] == ["gap", "loop", "gap", "loop"]


def test_a_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    assert play(open_source(str(euroc(tmp_path)))).numbers == [0, 1, 2, 3]
