from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import PixelFormat
from edgepipe.pipeline.source import Arrival, DamagedError, EventKind, SourceEvent
from edgepipe.stages.sources.folder import FolderSource


def image(level: int, width: int = 8, height: int = 6) -> NDArray[np.uint8]:
    return np.full((height, width, 3), level, np.uint8)


def write(path: Path, pixels: NDArray[np.uint8] | NDArray[np.uint16]) -> Path:
    assert cv2.imwrite(str(path), pixels)
    return path


def opened(path: Path, *, loop: bool = False, fps: float | None = None) -> FolderSource:
    return FolderSource(path, str(path), loop=loop, fps=fps)


def test_images_come_in_natural_order_with_their_own_sizes(tmp_path: Path) -> None:
    write(tmp_path / "img10.png", image(10, width=4))
    write(tmp_path / "img2.png", image(2))
    write(tmp_path / "IMG1.PNG", image(1))
    (tmp_path / "readme.txt").write_text("not an image")
    (tmp_path / "img3.png").mkdir()
    source = opened(tmp_path, fps=2)
    found = [source.next_arrival() for _ in range(4)]
    assert found == [Arrival(0, 0), Arrival(1, 500_000_000), Arrival(2, 10**9), None]
    pictures = [source.decode(k) for k in range(3)]
    assert [p.planes[0][0, 0, 0] for p in pictures] == [1, 2, 10]
    assert [(p.width, p.height) for p in pictures] == [(8, 6), (8, 6), (4, 6)]
    assert {p.format for p in pictures} == {PixelFormat.BGR}
    assert source.end_state == ("ended", "")
    source.close()


def test_the_assumed_rate_is_said(tmp_path: Path) -> None:
    write(tmp_path / "a.png", image(1))
    source = opened(tmp_path)
    assert source.info.fps == 25
    assert source.warnings == ("images have no rate: assumed 25 fps",)


def test_a_loop_begins_again_and_goes_on_counting(tmp_path: Path) -> None:
    for level in (1, 2):
        write(tmp_path / f"{level}.png", image(level))
    source = opened(tmp_path, loop=True)
    found = [source.next_arrival() for _ in range(7)]
    indices = [a.index for a in found if isinstance(a, Arrival)]
    assert indices == [0, 1, 2, 3, 4]
    laps = [(k, a.kind) for k, a in enumerate(found) if isinstance(a, SourceEvent)]
    assert laps == [(2, EventKind.LOOP), (5, EventKind.LOOP)]
    assert [source.decode(k).planes[0][0, 0, 0] for k in indices] == [1, 2, 1, 2, 1]


def test_one_image_is_a_folder_of_one(tmp_path: Path) -> None:
    source = opened(write(tmp_path / "only.png", image(7)))
    assert source.next_arrival() == Arrival(0, 0)
    assert source.next_arrival() is None


def test_an_image_that_cannot_be_read_costs_only_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "1.png", image(1))
    (tmp_path / "2.png").write_bytes(b"")
    (tmp_path / "3.jpg").write_bytes(b"\xff\xd8 and then nothing")
    write(tmp_path / "4.png", image(4))
    source = opened(tmp_path)
    for index in (1, 2):
        with pytest.raises(DamagedError, match=f"{index + 1}.*cannot be read"):
            source.decode(index)
    assert source.decode(3).planes[0][0, 0, 0] == 4
    assert capfd.readouterr().err == ""


def test_a_folder_of_broken_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"no")
    with pytest.raises(InputError, match="none of 1 images can be read"):
        opened(tmp_path)


def test_images_of_16_bits_and_with_alpha_become_8_bit_ones(tmp_path: Path) -> None:
    deep = write(tmp_path / "16.png", np.full((6, 8), 180 * 257, np.uint16))
    alpha = write(tmp_path / "a.png", np.full((6, 8, 4), 180, np.uint8))
    for path, shape in ((deep, (6, 8)), (alpha, (6, 8, 3))):
        plane = opened(path).decode(0).planes[0]
        assert plane.shape == shape
        assert np.unique(plane).tolist() == [180]


def test_the_orientation_in_a_photo_is_respected(tmp_path: Path) -> None:
    jpeg = cv2.imencode(".jpg", image(100))[1].tobytes()
    entry = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"  # turn right to view
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + entry + bytes(4)
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    path = tmp_path / "turned.jpg"
    path.write_bytes(jpeg[:2] + segment + jpeg[2:])
    picture = opened(path).decode(0)
    assert (picture.width, picture.height) == (6, 8)
