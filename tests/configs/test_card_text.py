"""A card as text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.configs.card_text import (
    UNKNOWN,
    Line,
    open_questions,
    scalar,
    write_card_text,
)
from edgepipe.configs.strict_yaml import parse


def read(text: str) -> object:
    document = parse(text.encode(), "card.yaml")
    assert not document.problems
    return document.data


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1)))
def test_names_come_back_as_they_were(names: list[str]) -> None:
    assert read(f"names: {scalar(names)}\n") == {"names": names}


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text(), st.text(min_size=1).filter(str.isprintable))
def test_no_comment_ends_before_its_line(note: str, why: str, name: str) -> None:
    text = write_card_text(
        [
            Line("name", "m", note),
            Line("input.name", name, note),
            Line("input.color", None, why),
            Line("head.kind", None, why),
            Line("classes.names", None, why),
            Line("licence", "not stated", ""),
        ],
        "m.onnx",
        "fp32",
    )
    assert read(text) == {
        "name": "m",
        "files": [{"precision": "fp32", "path": "m.onnx"}],
        "input": {"name": name},
        "licence": "not stated",
    }


def test_what_is_asked_for_is_found_again_by_key_and_line() -> None:
    lines = [
        Line("name", "m", ""),
        Line("input.name", "images", ""),
        Line("input.color", None, f"{UNKNOWN}: rgb or bgr"),
        Line("head.kind", None, f"{UNKNOWN}: which"),
        Line("licence", None, f"{UNKNOWN}: what terms"),
    ]
    assert list(open_questions(write_card_text(lines, "m.onnx", "fp32"))) == [
        (("input", "color"), 6, "rgb or bgr"),
        (("head", "kind"), 8, "which"),
        (("licence",), 9, "what terms"),
    ]
