from pathlib import Path

import pytest

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError
from edgepipe.models import zoo
from edgepipe.models.card import Align, ColorOrder

CARD = """\
name: walkers
files:
  - {precision: int8, path: walkers-int8.onnx, sha256: null}
  - {precision: fp32, path: full/walkers.onnx}
input:
  name: images
  height: 192
  width: 320
  color: bgr
  mean: [103.53, 116.28, 123.675]
  std: [57.375, 57.12, 58.395]
  align: top_left
  pad_value: [0, 0, 0]
head: {kind: nanodet, outputs: [scores, dist]}
classes: {names: [walker, no, 0755]}
score_threshold: 0.4
iou_threshold: 0.6
licence: Apache-2.0
provenance: |
  Trained here,
  on drawn scenes.
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A card in a folder of its own."""
    path = tmp_path / "walkers.yaml"
    path.write_text(CARD)
    return path


def change(card: Path, old: str, new: str) -> None:
    """Replace a piece of the card's text."""
    text = card.read_text()
    assert old in text
    card.write_text(text.replace(old, new))


def test_a_card_is_read_with_its_paths_beside_it(card: Path) -> None:
    found, warnings = read_card(card)
    assert warnings == ()
    assert [file.path for file in found.files] == [
        card.parent / "walkers-int8.onnx",
        card.parent / "full/walkers.onnx",
    ]
    assert found.files[0].sha256 is None
    assert (found.height, found.width) == (192, 320)
    assert found.color is ColorOrder.BGR
    assert found.align is Align.TOP_LEFT
    assert found.mean == (103.53, 116.28, 123.675)
    assert found.pad_value == (0, 0, 0)
    assert found.outputs == ("scores", "dist")
    assert found.class_names == ("walker", "no", "0755")
    assert found.max_detections == 100
    assert not found.class_agnostic
    assert found.provenance == "Trained here,\non drawn scenes.\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mean: [103.53,", "mean: [1, 2,", "10:9: input.mean: expected a list of 3"),
        ("std: [57.375", "std: [0", "11:8: input.std: expected a list of 3 values"),
        ("color: bgr", "color: gbr", "9:10: input.color: expected one of bgr, rgb"),
        ("height: 192", "hieght: 192", "7:3: input.hieght: unknown key, did you mean"),
        ("full/", "../", "4:29: files[1].path: expected a relative path, got"),
        ("full/", "/full/", "4:29: files[1].path: expected a relative path, got"),
        (
            "sha256: null",
            "sha256: 12",
            "3:56: files[0].sha256: expected 64 hex",
        ),
        ("precision: fp32", "precision: int8", "4:17: files[1].precision: a second"),
        ("names: [walker, no, 0755]", "", "15:10: classes: expected one of names and"),
        ("[walker, no, 0755]", "[]", "15:18: classes.names: at least one item"),
        ("[walker, no, 0755]", "[a], file: b", "15:10: classes: expected one of names"),
        ("name: walkers", "name: walkers\nname: b", "2:1: name: duplicate key"),
        ("iou_threshold: 0.6", "", "1:1: iou_threshold: this key is required"),
    ],
)
def test_a_mistake_in_a_card_is_named_with_its_place(
    old: str, new: str, said: str, card: Path
) -> None:
    change(card, old, new)
    with pytest.raises(ConfigError) as caught:
        read_card(card)
    messages = str(caught.value).split("\n")
    assert any(message.startswith(f"{card}:{said}") for message in messages)


def test_a_card_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file$"):
        read_card(tmp_path / "none.yaml")


def test_a_repeated_class_name_is_a_warning(card: Path) -> None:
    change(card, "0755", "walker")
    found, warnings = read_card(card)
    assert found.class_names[2] == "walker"
    assert warnings == (f"{card}:15:31: class 2 is called 'walker' like class 0",)


@pytest.mark.parametrize(
    "raw",
    [b"car\nbus", b"car\nbus\n", b"car\nbus\n\n \n", b"\xef\xbb\xbfcar\r\nbus\r\n"],
    ids=["no last line end", "plain", "blank lines at the end", "from Windows"],
)
def test_class_names_may_come_from_a_file(raw: bytes, card: Path) -> None:
    change(card, "names: [walker, no, 0755]", "file: names.txt")
    (card.parent / "names.txt").write_bytes(raw)
    found, warnings = read_card(card)
    assert found.class_names == ("car", "bus")
    assert warnings == ()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"car\n\nbus\n", "names.txt:2:1: blank line between class names"),
        (b"\ncar\n", "names.txt:1:1: blank line between class names"),
        (b"", "names.txt: the file of class names is empty"),
        (b"\n\n", "names.txt: the file of class names is empty"),
        (b"car\nb\xffs\n", "names.txt:2:2: not UTF-8 text: byte 0xff"),
        (b"car\x00\n", "names.txt:1:1: control character in a class name"),
    ],
)
def test_a_file_of_class_names_that_could_mean_two_things_is_refused(
    raw: bytes, said: str, card: Path
) -> None:
    change(card, "names: [walker, no, 0755]", "file: names.txt")
    (card.parent / "names.txt").write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        read_card(card)
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize(
    ("file", "count", "warned"),
    [
        ("names_plain.txt", 80, 0),
        ("names_trailing_blank.txt", 80, 0),
        ("names_crlf_bom.txt", 80, 0),
        ("names_79.txt", 79, 0),
        ("names_dup.txt", 80, 1),
    ],
)
def test_recorded_files_of_class_names(
    file: str, count: int, warned: int, cases: Path, card: Path
) -> None:
    change(card, "names: [walker, no, 0755]", f"file: {file}")
    (card.parent / file).write_bytes((cases / "C17" / file).read_bytes())
    found, warnings = read_card(card)
    assert len(found.class_names) == count
    assert found.class_names[0] == "class 0"
    assert len(warnings) == warned


@pytest.mark.parametrize("name", zoo.names())
def test_the_cards_of_the_models_that_ship_are_read_without_warnings(name: str) -> None:
    found, warnings = read_card(zoo.card_path(name))
    assert found.name == name
    assert warnings == ()
    assert all(file.path.exists() and file.sha256 for file in found.files)
