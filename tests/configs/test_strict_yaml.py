from pathlib import Path

import pytest

from edgepipe.configs.strict_yaml import MAX_VALUES, Document, parse


def messages(document: Document) -> list[str]:
    """``line:column path: text`` of every problem."""
    return [
        f"{problem.mark.line}:{problem.mark.column} {problem.text}"
        for problem in document.problems
    ]


def accepted(text: str | bytes) -> object:
    """The data of a text without problems."""
    document = parse(text, "f.yaml")
    assert messages(document) == []
    return document.data


def test_scalars_stay_the_text_typed() -> None:
    ids = ["no", "on", "0755", "1_0", "12:30", "1e3", "true", "2024-01-01"]
    assert accepted(f"ids: [{', '.join(ids)}]") == {"ids": ids}


def test_keys_stay_the_text_typed() -> None:
    assert accepted("no: a\n0755: b\n1: c\n") == {"no": "a", "0755": "b", "1": "c"}


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfa: 1\nb: 2\n",
        b"a: 1\r\nb: 2\r\n",
        b"a: 1\rb: 2\r",
        b"--- # one document\na: 1\nb: 2\n...\n",
        b"# caf\xc3\xa9\xc2\xa0: a comment may hold any space\na: 1\nb: 2",
    ],
    ids=["byte order mark", "CRLF", "CR", "document marks", "comment"],
)
def test_harmless_dress_is_accepted(raw: bytes) -> None:
    assert accepted(raw) == {"a": "1", "b": "2"}


def test_every_key_and_value_has_its_place() -> None:
    marks = parse("a: 1\nb:\n  - c: x\n", "f.yaml").marks
    assert str(marks.key(("b", 0, "c"))) == "f.yaml:3:5"
    assert str(marks.value(("b", 0, "c"))) == "f.yaml:3:8"
    assert str(marks.value(("b", 0, "unheard", "of"))) == "f.yaml:3:5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1:1 the file is empty, expected a mapping"),
        ("# nothing\n", "1:1 the file is empty, expected a mapping"),
        ("~", "1:1 expected a mapping at the top level, got ~"),
        ("- a\n- b\n", "1:1 expected a mapping at the top level, got a list"),
        ("a: 1\n---\nb: 2\n", "2:1 a second document begins here, one is expected"),
        ("a:\n\t- 1\n", "2:1 tab character in the indentation"),
        ("a:\n  \tb: 1\n", "2:3 tab character in the indentation"),
        ("a:\t1\n", "1:3 tab character; use blanks"),
        ("a: .inf\n", "1:4 .inf is not a finite number; quote it if it is text"),
        ("a: [1, -.INF]\n", "1:8 -.INF is not a finite number; quote it if it is text"),
        ("a: .nan\n", "1:4 .nan is not a finite number; quote it if it is text"),
        ("a: 1e999\n", "1:4 1e999 is not a finite number; quote it if it is text"),
        ("a: !!str 1\n", "1:4 tags such as !!str are not supported"),
        ("a: !!python/name:os.system x\n", "1:4 tags such as !!python/name:os.system"),
        ("? [a]\n: 1\n", "1:3 a key must be text"),
        ("'': 1\n", "1:1 a key must be text"),
        ("a: {b: 1\n", "1:4 this bracket is never closed"),
        ("a: 'b\n", "1:4 this quote is never closed"),
        ("a: {b: ${X}}\n", "1:9 expected a comma or the closing bracket; inside br"),
        ("a: b: c\n", "1:5 a key cannot stand here; check the indentation"),
        ("a:\n  b: 1\n c: 2\n", "3:2 the indentation does not fit the lines above"),
        ("a: @b\n", "1:4 text cannot begin with this character; quote it"),
        ("a: *b\n", "1:4 alias *b has no finished anchor before it"),
        ("a: &a [*a]\n", "1:8 alias *a has no finished anchor before it"),
        ('a: "\\ud800"\n', "1:4 an escape makes half a character (surrogate)"),
        ('a: "\\UFFFFFFFF"\n', "1:7 not valid YAML"),
        ("a: " + "[" * 40, "1:36 nested more than 32 levels deep"),
        ("<<: 1\n", "1:5 << takes a mapping or a list of mappings"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: str) -> None:
    (message,) = messages(parse(text, "f.yaml"))
    assert message.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n\u00a0 - b: c\n", "2:1 U+00A0 NO-BREAK SPACE"),
        ("a: b\u00a0c\n", "1:5 U+00A0 NO-BREAK SPACE"),
        ("a: 'b\u3000c'\n", "1:6 U+3000 IDEOGRAPHIC SPACE"),
        ("a\u200b: b\n", "1:2 U+200B ZERO WIDTH SPACE"),
        ("a: b\u2028c\n", "1:5 U+2028 LINE SEPARATOR"),
        ("a: b\x85c\n", "1:5 U+0085 control character"),
        ("a: \ufeffb\n", "1:4 U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("a: b\u202ec\n", "1:5 U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a: \x07\n", "1:4 U+0007 control character"),
        ("a: 'x # y\u00a0z'\n", "1:10 U+00A0 NO-BREAK SPACE"),
    ],
)
def test_exotic_and_invisible_characters_are_named(text: str, said: str) -> None:
    (message,) = messages(parse(text, "f.yaml"))
    assert message.startswith(said)


def test_an_escape_may_stand_for_an_exotic_character() -> None:
    assert accepted('a: "b\\u00a0c"\n') == {"a": "b\u00a0c"}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a: 1\nb: caf\xe9\n", "2:7 not UTF-8 text: byte 0xe9"),
        ("a: 1\n".encode("utf-16"), "1:1 not UTF-8 text: byte 0xff (it looks like"),
        (b"\r\n\xff", "2:1 not UTF-8 text: byte 0xff"),
        (b" " * 200_000, "0:0 larger than 128 KiB"),
    ],
)
def test_bytes_that_are_no_text_are_refused(raw: bytes, said: str) -> None:
    (message,) = messages(parse(raw, "f.yaml"))
    assert message.startswith(said)


def test_duplicate_keys_are_found_at_every_depth_in_one_run() -> None:
    text = "a:\n  - b: 1\n    c: 2\n    c: 3\na: 4\nd: {e: 1, e: 2}\n"
    document = parse(text, "f.yaml")
    assert messages(document) == [
        "4:5 duplicate key, first given on line 3",
        "5:1 duplicate key, first given on line 1",
        "6:11 duplicate key, first given on line 6",
    ]
    assert [problem.path for problem in document.problems] == [
        ("a", 0, "c"),
        ("a",),
        ("d", "e"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n  b:1\n  c: 2\n", "2:3"),
        ("a:\n  c: 2\n  b:1\n  d: 3\n", "3:3"),
        ("a:\n  c: 2\n  b:1\n", "3:3"),
        ("a:\n  - b:1\n    c: 2\n", "2:5"),
        ("a: {b:1, c: 2}\n", "1:5"),
        ("a:\n  b:{c: 2}\n", "2:3"),
        ("a: x\n   b:1\n", "2:4"),
    ],
)
def test_a_blank_missing_after_a_colon_is_found_where_it_is_missing(
    text: str, place: str
) -> None:
    (message,) = messages(parse(text, "f.yaml"))
    assert message == f"{place} a blank is missing after 'b:'"


def test_reading_goes_on_after_a_missing_blank() -> None:
    document = parse("a:1\nb: 2\nc:3\nb: 4\n", "f.yaml")
    assert messages(document) == [
        "1:1 a blank is missing after 'a:'",
        "3:1 a blank is missing after 'c:'",
        "4:1 duplicate key, first given on line 2",
    ]
    assert document.data == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    "value", ["rtsp://host/x", "synthetic:?seed=1", "sample:bikes", "12:30", "C:\\x"]
)
def test_a_value_with_a_colon_is_not_taken_for_a_missing_blank(value: str) -> None:
    assert accepted(f"a:\n  uri: {value}\n  b: 1") == {"a": {"uri": value, "b": "1"}}


def test_aliases_are_copies_and_merged_keys_yield_to_written_ones() -> None:
    text = "x: &x {p: 1, q: 2}\ny: &y {q: 3, r: 4}\nz: {<<: [*x, *y], p: 5}\nw: *x\n"
    data = accepted(text)
    assert isinstance(data, dict)
    assert data["z"] == {"p": "5", "q": "2", "r": "4"}
    assert data["w"] == data["x"]
    assert data["w"] is not data["x"]


def test_a_mistake_in_a_merged_mapping_is_shown_where_it_was_written() -> None:
    marks = parse("x: &x {p: 1}\nz:\n  <<: *x\n", "f.yaml").marks
    assert str(marks.value(("z", "p"))) == "f.yaml:1:11"


def bomb(reference: str) -> str:
    """A few lines that would grow to a hundred million values."""
    lines = ["l0: &l0 {k: 1}"]
    for level in range(1, 9):
        many = ", ".join([f"*l{level - 1}"] * 10)
        lines.append(f"l{level}: &l{level} " + reference.format(many))
    return "\n".join(lines)


@pytest.mark.parametrize("reference", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_cannot_grow_without_bound(reference: str) -> None:
    (message,) = messages(parse(bomb(reference), "f.yaml"))
    assert message == f"1:1 more than {MAX_VALUES} values, with every alias filled in"


def test_a_long_chain_of_aliases_is_cut_at_the_depth_limit() -> None:
    lines = ["l0: &l0 [1]", *(f"l{i}: &l{i} [*l{i - 1}]" for i in range(1, 40))]
    said = messages(parse("\n".join(lines), "f.yaml"))
    assert all("nest more than 32 levels deep" in message for message in said)
    assert said


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("tabs.yaml", ["2:1 tab character", "3:1 tab character"]),
        ("bom.yaml", []),
        ("crlf.yaml", []),
        ("nbsp.yaml", ["2:1 U+00A0"]),
        ("empty.yaml", ["1:1 the file is empty"]),
        ("list_top.yaml", ["1:1 expected a mapping"]),
        ("two_docs.yaml", ["2:1 a second document begins here, one is expected"]),
    ],
)
def test_recorded_files_with_odd_characters(
    file: str, said: list[str], cases: Path
) -> None:
    found = messages(parse((cases / "G04" / file).read_bytes(), file))
    assert len(found) == len(said)
    assert all(
        message.startswith(start) for message, start in zip(found, said, strict=True)
    )


def test_recorded_ids_that_look_like_numbers_stay_text(cases: Path) -> None:
    data = parse((cases / "G01/on_off.yaml").read_bytes(), "f").data
    assert data == {
        "sources": [
            {"id": name, "url": "../A21/clip.mp4"}
            for name in ["no", "on", "0755", "1_0"]
        ],
        "scheduler": {"mode": "off"},
    }


def test_recorded_duplicate_keys_are_both_found(cases: Path) -> None:
    found = parse((cases / "G02/dup.yaml").read_bytes(), "f").problems
    assert [(p.mark.line, p.path[-1]) for p in found] == [(5, "fps"), (8, "sources")]
    assert "line 4" in found[0].text
    assert "line 1" in found[1].text


def test_a_recorded_missing_blank_is_shown_at_its_own_line(cases: Path) -> None:
    found = messages(parse((cases / "G06/units.yaml").read_bytes(), "f"))
    assert found == ["7:3 a blank is missing after 'enabled:'"]
