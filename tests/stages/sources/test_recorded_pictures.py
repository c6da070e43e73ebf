"""Pictures of odd shapes and kinds that broke other programs, with what is right."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.convert import Convert, to_bgr
from edgepipe.stages.sources.open import open_source

Image = NDArray[np.uint8]


def folder_of(cases: Path, name: str) -> Path:
    (path,) = cases.glob(f"*/{name}")
    return path.parent


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def code_of(image: Image) -> int | None:
    """Twelve bits in cells of twelve pixels, after a white and a black cell."""
    grey = image.astype(np.float32).mean(axis=2)
    cells = [grey[7:13, 7 + k * 12 : 13 + k * 12].mean() for k in range(14)]
    if cells[0] <= 150 or cells[1] >= 100:
        return None
    return int("".join("1" if cell > 125 else "0" for cell in cells[2:]), 2)


def pictures(path: Path) -> list[Picture | None]:
    """All of a source; None: damaged."""
    source = open_source(str(path))
    found: list[Picture | None] = []
    while (arrival := source.next_arrival()) is not None:
        if isinstance(arrival, Arrival):
            try:
                found.append(source.decode(arrival.index))
            except DamagedError:
                found.append(None)
    source.close()
    return found


@pytest.mark.parametrize(
    "name", ["odd_321x241.webm", "odd_333x187.mkv", "crop_322x182.mp4"]
)
def test_shape_and_last_column_are_those_of_what_is_shown(
    cases: Path, name: str
) -> None:
    folder = folder_of(cases, name)
    picture = pictures(folder / name)[0]
    assert picture is not None
    image = to_bgr(picture)
    assert list(image.shape) == expected(folder)[name]
    assert code_of(image) == 0
    last, before = (image[:, -k].astype(int) for k in (1, 2))
    assert np.abs(last.mean(axis=0) - before.mean(axis=0)).max() <= 6
    red, green, _ = last.mean(axis=0)[::-1]  # blue differs from row to row
    assert abs(red - 99) <= 12
    assert abs(green - 90) <= 12


def test_stills_of_every_kind_reach_the_model_with_their_code(cases: Path) -> None:
    folder = folder_of(cases, "gray16.png")
    right = expected(folder)
    height, width, _ = right["shape"]
    ring = BufferRing(1, height, width)
    convert = Convert(ring, height, width, ColorOrder.BGR, Align.CENTER, (0, 0, 0))
    names = sorted(p for p in folder.iterdir() if p.suffix in (".png", ".jpg"))
    assert len(names) == 6
    for path in names:
        (picture,) = pictures(path)
        assert picture is not None, path.name
        slot = convert.process(Frame("a", 0, 0, 1, picture=picture), 0).tensor
        assert slot is not None
        assert list(slot.array.shape) == right["shape"]
        assert str(slot.array.dtype) == right["dtype"]
        assert code_of(slot.array) == right["barcode"], path.name
        slot.give_back()
    video = pictures(folder / "gray_video.mkv")
    assert [None if p is None else code_of(to_bgr(p)) for p in video] == [*range(12)]


def test_damaged_jpegs_are_counted_and_never_shown(cases: Path, tmp_path: Path) -> None:
    folder = folder_of(cases, "jpegs.zip")
    right = expected(folder)
    with zipfile.ZipFile(folder / "jpegs.zip") as archive:
        archive.extractall(tmp_path)
    holder = next(p.parent for p in tmp_path.rglob("*") if p.suffix == ".jpg")
    found = pictures(holder)
    assert len(found) == right["files"]
    shown = [k for k, picture in enumerate(found) if picture is not None]
    assert right["delivered_min"] <= len(shown) <= right["delivered_max"]
    assert not set(shown) & {*right["empty_or_headless"], *right["truncated"]}
    bad = {*right["empty_or_headless"], *right["truncated"], *right["bytes_zeroed"]}
    assert len(set(shown) - bad) == right["clean"]
    clean = [k for k in shown if k not in bad]
    assert [code_of(to_bgr(p)) for k in clean if (p := found[k])] == clean


@pytest.mark.parametrize("name", ["h264_10bit.mp4", "hevc_10bit.mp4"])
def test_ten_bits_reach_the_model_in_their_colours(cases: Path, name: str) -> None:
    folder = folder_of(cases, name)
    right = expected(folder)
    for picture in pictures(folder / name):
        assert picture is not None
        ring = BufferRing(1, picture.height, picture.width)
        convert = Convert(
            ring,
            picture.height,
            picture.width,
            ColorOrder.RGB,
            Align.CENTER,
            (0, 0, 0),
        )
        slot = convert.process(Frame("a", 0, 0, 1, picture=picture), 0).tensor
        assert slot is not None
        bars = np.array_split(slot.array, 6, axis=1)
        seen = np.array([bar[:, 6:-6].mean(axis=(0, 1)) for bar in bars])
        assert np.abs(seen - right["patches_rgb"]).max() <= right["tolerance"]
