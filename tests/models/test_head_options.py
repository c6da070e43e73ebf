"""Options of heads: which they know, and what they do at the edges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads import (
    DETECTORS,
    build_head,
    check_outputs,
    suppresses,
)
from edgepipe.models.scores import ScoreRule, least_logit, sigmoid, softmax

MakeCard = Callable[..., ModelCard]

CARD = """\
name: boxes
files: [{precision: fp32, path: boxes.onnx}]
input: {name: images, height: 64, width: 96, color: bgr, mean: [0, 0, 0],
  std: [1, 1, 1]}
head:
  kind: KIND
  outputs: [scores, boxes]
classes: {names: [a, b, c]}
score_threshold: 0.4
"""
ANCHORS = ((0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 1.0, 1.0))


def write(tmp_path: Path, kind: str, *head: str, more: str = "") -> Path:
    """A card whose head section has these lines more."""
    lines = "".join(f"\n  {line}" for line in head)
    text = CARD.replace("KIND", kind).replace("boxes]\ncl", f"boxes]{lines}\ncl")
    path = tmp_path / "card.yaml"
    path.write_text(text + more)
    return path


def problems(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_card(path)
    return str(caught.value).replace(f"{path}:", "")


def test_every_option_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "ssd",
        "anchors: [[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 1, 1]]",
        "variances: [0.1, 0.1, 0.2, 0.2]",
        "box_format: cycxhw",
        "normalized: false",
        "scores: softmax",
        "background: first",
        more="iou_threshold: 0.5\n",
    )
    card, warnings = read_card(path)
    assert warnings == ()
    assert card.head_options == HeadOptions(
        anchors=ANCHORS,
        variances=(0.1, 0.1, 0.2, 0.2),
        box_format="cycxhw",
        normalized=False,
        scores="softmax",
        background="first",
    )
    assert card.head_options.said().keys() == {
        "anchors",
        "variances",
        "box_format",
        "normalized",
        "scores",
        "background",
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "# cx cy w h\n0.1 0.2 0.3 0.4\n\n0.5, 0.5, 1, 1 # whole\n"),
        ("a.csv", "\ufeff0.1,0.2,0.3,0.4\r\n0.5,0.5,1,1\r\n"),
        ("a.npy", None),
    ],
)
def test_anchors_may_come_from_a_file(
    name: str, content: str | None, tmp_path: Path
) -> None:
    if content is None:
        np.save(tmp_path / name, np.array(ANCHORS))
    else:
        (tmp_path / name).write_bytes(content.encode())
    path = write(tmp_path, "ssd", f"anchors_file: {name}", more="iou_threshold: 0.5\n")
    assert read_card(path)[0].head_options.anchors == ANCHORS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected anchors (n, 4) of cx, cy, w, h, got 0"),
        (b"1 2 3\n", "got 1x3"),
        (b"1 2 3 4\n1 2\n", "no anchors: "),
        (b"1 2 3 x\n", "no anchors: could not convert string to float: 'x'"),
        (b"1 2 3 inf\n", "an anchor is NaN or infinite"),
        (b"\xff\xfe", "no anchors: 'utf-8' codec"),
    ],
)
def test_a_file_that_holds_no_anchors_is_one_line(
    content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    path = write(tmp_path, "ssd", "anchors_file: a.txt", more="iou_threshold: 0.5\n")
    text = problems(path)
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize("kind", ["objects", "text", "broken", "missing"])
def test_an_array_file_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    if kind == "objects":
        np.save(file, np.array([{}], object), allow_pickle=True)
    elif kind == "text":
        np.save(file, np.array([["a"] * 4]))
    elif kind == "broken":
        file.write_bytes(b"\x93NUMPY\x01")
    path = write(tmp_path, "ssd", "anchors_file: a.npy", more="iou_threshold: 0.5\n")
    assert str(file) in problems(path)


@pytest.mark.parametrize(
    ("kind", "line", "said"),
    [
        ("yolov8", "background: first", "8:3: head.background: head 'yolov8' has no"),
        ("yolov8", "scores: softmax", "head.scores: head 'yolov8' knows probabilities"),
        ("ssd", "box_format: xyxy", "head.box_format: head 'ssd' knows cxcywh, cycxhw"),
        ("boxes", "anchors_file: a.npy", "8:3: head.anchors_file: head 'boxes' has no"),
        ("boxes", "strides: [8]", "head 'boxes' has no use for it (it uses: box_for"),
        ("nanodet", "decoded: true", "head.decoded: head 'nanodet' has no use for it"),
        ("boxes", "keypoints: xy", "head.keypoints: head 'boxes' has no use for it"),
        ("boxes", "box_format: xywh", "head.box_format: expected one of xyxy, yxyx"),
        ("yolov8", "strides: [8, 0]", "head.strides: expected a list of 1 to 8 values"),
        ("yolov8", "strides: 8", "head.strides: expected a list of 1 to 8 values"),
        ("ssd", "anchors: [[1, 2, 3]]", "head.anchors: expected a list of 1 to"),
        ("ssd", "variances: [0, 1, 1, 1]", "head.variances: expected a list of 4"),
        ("boxes", "stride: [8]", "head.stride: unknown key, did you mean 'strides'?"),
        ("boxes", "normalized: yes", "head.normalized: expected true or false"),
    ],
)
def test_what_a_head_does_not_know_is_an_error_with_its_place(
    kind: str, line: str, said: str, tmp_path: Path
) -> None:
    more = "iou_threshold: 0.5\n"
    assert said in problems(write(tmp_path, kind, line, more=more))


def test_anchors_stand_in_one_place(tmp_path: Path) -> None:
    lines = "anchors: [[0, 0, 1, 1]]", "anchors_file: a.npy"
    path = write(tmp_path, "ssd", *lines, more="iou_threshold: 0.5\n")
    assert "anchors_file: expected one of anchors and anchors_file" in problems(path)


@pytest.mark.parametrize("kind", ["detr", "end-to-end", "postprocessed"])
def test_a_head_without_nms_has_no_word_of_it_in_its_card(
    kind: str, tmp_path: Path
) -> None:
    read_card(write(tmp_path, kind))
    more = "iou_threshold: 0.5\nclass_agnostic: true\n"
    text = problems(write(tmp_path, kind, more=more))
    assert f"iou_threshold: a detector without NMS (head {kind}) has none" in text
    assert f"class_agnostic: a detector without NMS (head {kind}) knows no" in text


def test_an_option_of_another_head_is_refused_without_a_card_file(
    make_card: MakeCard,
) -> None:
    options = HeadOptions(variances=(1.0, 1.0, 1.0, 1.0))
    with pytest.raises(
        ModelError, match=r"head.variances: head 'distances' has no use"
    ):
        build_head(make_card(head_options=options))


def test_ssd_without_anchors_says_what_to_do(make_card: MakeCard) -> None:
    card = make_card(head="ssd", outputs=("scores", "boxes"))
    with pytest.raises(ModelError, match=r"needs head.anchors \(if .* is 'boxes'\)"):
        build_head(card)


def test_one_class_too_many_may_be_the_background(make_card: MakeCard) -> None:
    outputs = {name: np.zeros((1, 5, 4), np.float32) for name in ("s", "b")}
    card = make_card(head="boxes", outputs=("s", "b"))
    with pytest.raises(ModelError, match=r"has 4 classes.* 3 .*head.background"):
        check_outputs(card, build_head(card), outputs)
    said = make_card(
        head="boxes", outputs=("s", "b"), head_options=HeadOptions(background="last")
    )
    check_outputs(said, build_head(said), outputs)


# --- class numbers that a network puts out ---


@pytest.mark.parametrize("number", [3.0, -1.0, 0.5, 1e30])
@pytest.mark.parametrize("head", ["end-to-end", "postprocessed"])
def test_a_class_number_without_a_name_is_never_a_box(
    head: str, number: float, make_card: MakeCard
) -> None:
    outputs: dict[str, NDArray[Any]] = {
        "out": np.array([[[1, 2, 3, 4, 0.9, number], [0, 0, 0, 0, 0, -1]]], np.float32)
    }
    names: tuple[str, ...] = ("out",)
    if head == "postprocessed":
        names = ("score", "box", "class")
        whole = outputs["out"]
        outputs = dict(
            zip(names, (whole[..., 4], whole[..., :4], whole[..., 5]), strict=True)
        )
    decoder = build_head(make_card(head=head, outputs=names))
    with pytest.raises(BadOutputError, match=r"class .*, the card has 3 class names"):
        decoder.decode(outputs, 0, 0.5)
    # What lies below the threshold is padding.
    assert len(decoder.decode(outputs, 0, 0.95).score) == 0


@pytest.mark.parametrize("count", [-1.0, 3.0])
def test_more_detections_than_rows_are_a_bad_output(
    count: float, make_card: MakeCard
) -> None:
    outputs = {
        "s": np.zeros((1, 2), np.float32),
        "b": np.zeros((1, 2, 4), np.float32),
        "c": np.zeros((1, 2), np.float32),
        "n": np.array([count], np.float32),
    }
    card = make_card(head="postprocessed", outputs=("s", "b", "c", "n"))
    with pytest.raises(BadOutputError, match="detections of 2 rows"):
        build_head(card).decode(outputs, 0, 0.5)


# --- numbers at the edges ---


@pytest.mark.parametrize("head", ["yolox", "ssd", "boxes", "detr", "end-to-end"])
def test_a_box_that_overflows_is_a_bad_output(head: str, make_card: MakeCard) -> None:
    large = np.float32(3e38)
    outputs = {
        "yolox": {"out": np.full((1, 126, 8), 1, np.float32)},
        "end-to-end": {"out": np.array([[[0, 0, large, large, 1, 0]]], np.float32)},
    }.get(head) or {
        "s": np.ones((1, 1, 3), np.float32),
        "b": np.full((1, 1, 4), large, np.float32),
    }
    if head == "yolox":
        outputs["out"][0, 3, 2] = 1000
    options = {
        "ssd": HeadOptions(anchors=((0.5, 0.5, 1.0, 1.0),)),
        "yolox": HeadOptions(),
    }.get(head, HeadOptions(normalized=True))
    card = make_card(head=head, outputs=tuple(outputs), head_options=options)
    with pytest.raises(BadOutputError, match="a box is too large for a number"):
        build_head(card).decode(outputs, 0, 0.5)


extreme = st.floats(width=32, allow_nan=False, allow_infinity=False)
logits = arrays(np.float32, st.tuples(st.integers(0, 6), st.just(4)), elements=extreme)
rules = st.builds(
    HeadOptions,
    scores=st.sampled_from(["probabilities", "sigmoid", "softmax"]),
    background=st.sampled_from(["none", "first", "last"]),
)


@given(logits, rules, st.floats(0, 1))
def test_no_row_that_reaches_the_threshold_is_filtered_out(
    raw: NDArray[np.float32], options: HeadOptions, threshold: float
) -> None:
    rule = ScoreRule(options)
    best = rule.best(raw, threshold)
    all_shares = rule.shares(raw)
    first, last = (options.background == place for place in ("first", "last"))
    classes = all_shares[:, int(first) : 4 - int(last)]
    reach = np.flatnonzero((classes >= np.float32(threshold)).any(axis=1))
    assert best.rows.tolist() == reach.tolist()
    assert best.score.tolist() == classes[reach].max(axis=1, initial=0).tolist()
    assert best.class_id.tolist() == [int(row.argmax()) for row in classes[reach]]


@given(logits)
def test_shares_are_finite_and_in_range(raw: NDArray[np.float32]) -> None:
    for shares in (sigmoid(raw), softmax(raw)):
        assert ((shares >= 0) & (shares <= 1)).all()
    assert softmax(raw).sum(axis=1) == pytest.approx(1, abs=1e-5)


@given(st.floats(0, 1), st.floats(-200, 200, width=32))
def test_no_logit_below_the_least_reaches_the_threshold(
    threshold: float, logit: float
) -> None:
    if sigmoid(np.array([logit], np.float32))[0] >= np.float32(threshold):
        assert logit >= np.float32(least_logit(threshold))


def test_the_first_of_equal_classes_wins(make_card: MakeCard) -> None:
    for kind in ("probabilities", "sigmoid", "softmax"):
        best = ScoreRule(HeadOptions(scores=kind)).best(np.ones((1, 3), np.float32), 0)
        assert best.class_id.tolist() == [0]


def test_every_detector_says_which_options_it_knows() -> None:
    known = set(HeadOptions.__dataclass_fields__)
    assert all(set(kind.options) <= known for kind in DETECTORS.values())


def test_the_cards_in_the_documentation_are_right(root: Path, tmp_path: Path) -> None:
    text = (root / "docs/models.md").read_text()
    block = text.split("One card for each family")[1].split("```")[1]
    sections = block.split("\nhead:")[1:]
    assert len(sections) == 9
    np.save(tmp_path / "anchors.npy", np.array(ANCHORS))
    path = tmp_path / "card.yaml"
    before, after = CARD.split("head:\n  kind: KIND\n  outputs: [scores, boxes]\n")
    for section in sections:
        kind = section.split("kind: ")[1].split(",")[0]
        nms = "iou_threshold: 0.5\n" if suppresses(kind) else ""
        path.write_text(f"{before}head:{section}\n{after}{nms}")
        card, _ = read_card(path)
        assert card.head == kind
        build_head(card)
