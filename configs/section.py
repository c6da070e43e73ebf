"""Parts of a configuration, and which keys each of them knows."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.fields import FieldInfo

from edgepipe.configs.scalars import native


class Section(BaseModel):
    """A mapping with known keys. Its fields say what they mean and hold no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _absent(value: Any) -> Any:
    return None if native(value) is None else value


MAY_BE_NULL = BeforeValidator(_absent)
"""For a section that may be left out: ``null``, as it is written, is no section."""


def keys(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys of a section as they are written, with their fields."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def parts(annotation: Any) -> list[type[Section]]:
    """The sections that a field of this type holds: itself, items, or alternatives."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [part for inner in get_args(annotation) for part in parts(inner)]


def holds_many(field: FieldInfo) -> bool:
    """Whether the field holds several items."""
    return get_origin(field.annotation) is tuple


def every_key(section: type[Section], above: str = "") -> Iterator[tuple[str, str]]:
    """Each key below a section with its full name, as in ``streams[].deadline``."""
    for key, field in keys(section).items():
        name = f"{above}{key}"
        yield key, name
        for part in parts(field.annotation):
            item = f"[{tag(part) or ''}]" if holds_many(field) else ""
            yield from every_key(part, f"{name}{item}.")


def at(section: type[Section], location: tuple[str | int, ...]) -> list[type[Section]]:
    """The sections that can stand at a place as pydantic gives it.

    A step that is no key is the tag of an alternative: the value of its ``kind``.
    """
    found = [section]
    for step in location:
        if isinstance(step, int):
            continue
        below = [keys(part)[step] for part in found if step in keys(part)]
        if below:
            found = [part for field in below for part in parts(field.annotation)]
        else:
            found = [part for part in found if tag(part) == step]
    return found


def tag(section: type[Section]) -> str | None:
    """The one value of the section's ``kind``; None when it has a choice or none."""
    field = section.model_fields.get("kind")
    values = get_args(field.annotation) if field else ()
    return str(values[0]) if len(values) == 1 else None
