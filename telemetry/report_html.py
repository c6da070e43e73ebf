"""Pieces of HTML. Everything that is not already :class:`Html` is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import cast

from edgepipe.telemetry.figures import MISSING, printable
from edgepipe.telemetry.figures import figure as number


class Html(str):
    """Text that is HTML already and goes into the page as it is."""

    __slots__ = ()


def text(value: object) -> Html:
    """Any value as HTML, escaped unless it is HTML already; None is a dash."""
    if isinstance(value, Html):
        return value
    return Html(escape(printable(MISSING if value is None else str(value))))


def tag(name: str, content: object, css: str = "") -> Html:
    """One element around ``content``."""
    attribute = f' class="{css}"' if css else ""
    return Html(f"<{name}{attribute}>{text(content)}</{name}>")


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], css: str = ""
) -> Html:
    """A table; the caption says what the columns mean."""
    header = "".join(f'<th scope="col">{text(cell)}</th>' for cell in head)
    body = "".join(
        f"<tr>{''.join(tag('td', cell) for cell in row)}</tr>" for row in rows
    )
    lead = tag("p", caption, "soft") if caption else ""
    return Html(
        f'{lead}<div class="scroll"><table class="{css}">'
        f"<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> Html:
    """A drawing with its explanation."""
    return Html(f"<figure>{svg}<figcaption>{text(caption)}</figcaption></figure>")


def facts(document: Mapping[str, object]) -> Html:
    """Nested facts as a table of dotted names and values."""
    return table("", ("fact", "value"), _flat(document, ""), css="words")


_QUANTITY = ("value", "reason")


def _flat(document: Mapping[str, object], path: str) -> Iterable[tuple[str, object]]:
    for key, value in document.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            nested = cast("Mapping[str, object]", value)
            if "value" in nested:
                yield here, _or_reason(nested)
                rest = {k: v for k, v in nested.items() if k not in _QUANTITY}
                yield from _flat(rest, here)
            else:
                yield from _flat(nested, here)
        elif key != "reason" or value:
            yield here, _joined(value)


def _or_reason(quantity: Mapping[str, object]) -> object:
    value = quantity["value"]
    if value is not None:
        return _joined(value)
    return Html(f'<span class="soft">{MISSING} ({text(quantity.get("reason"))})</span>')


def _joined(value: object) -> object:
    if isinstance(value, list):
        return " ".join(str(each) for each in cast("list[object]", value))
    return number(value) if isinstance(value, float) else value
