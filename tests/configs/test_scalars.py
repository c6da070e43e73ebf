import pytest

from edgepipe.configs.scalars import Style, Written, native, resolve, show


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "0755",
        "1_0",
        "12:30:45",
        "0b1",
        "2024-01-01",
        "=",
    ],
)
def test_what_only_yaml_1_1_takes_for_something_else_is_text(text: str) -> None:
    assert resolve(text) == text


def test_a_text_of_thousands_of_digits_is_not_a_number() -> None:
    assert resolve("9" * 5000) == "9" * 5000


@pytest.mark.parametrize(
    ("style", "value"), [(Style.PLAIN, 5), (Style.QUOTED, "5"), (Style.FILLED, 5)]
)
def test_only_a_quoted_number_is_text(style: Style, value: object) -> None:
    assert native(Written("5", style)) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Written("33", Style.PLAIN), "33"),
        (Written("33", Style.QUOTED), "'33'"),
        (Written("", Style.PLAIN), "nothing"),
        (Written("a\nb", Style.QUOTED), r"'a\nb'"),
        (Written("x" * 80, Style.PLAIN), f"'{'x' * 60}…'"),
        ({}, "a mapping"),
        ([], "a list"),
    ],
)
def test_a_value_is_shown_on_one_short_line(value: object, shown: str) -> None:
    assert show(value) == shown
