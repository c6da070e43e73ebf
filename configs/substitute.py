"""``${VAR}``, ``${VAR:-default}`` and ``$$`` inside scalars."""

import re
from collections.abc import Mapping

from edgepipe.configs.problems import Marks, Path, Problem
from edgepipe.configs.scalars import Style, Written, is_list, is_mapping

# In this order: an escaped dollar, a good reference, and the start of a bad one. A
# dollar before anything else is just a dollar, as in many a password.
_DOLLAR = re.compile(
    r"(?P<escaped>\$\$)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|(?P<bad>\$\{)"
)


def fill(
    data: object, env: Mapping[str, str], marks: Marks
) -> tuple[object, list[Problem]]:
    """The data with every reference replaced, and the references that cannot be.

    As in a shell, the default also stands in for a variable that is set but empty.
    Keys are left alone.
    """
    problems: list[Problem] = []

    def inside(value: object, path: Path) -> object:
        if is_mapping(value):
            entries = value.items()
            return {key: inside(inner, (*path, key)) for key, inner in entries}
        if is_list(value):
            items = enumerate(value)
            return [inside(inner, (*path, index)) for index, inner in items]
        if isinstance(value, Written) and "$" in value:
            filled, wrong = _fill(value, env)
            problems.extend(Problem(marks.value(path), path, one) for one in wrong)
            return filled
        return value

    return inside(data, ()), problems


def escape(text: str) -> str:
    """Text that :func:`fill` turns back into ``text``."""
    return text.replace("$", "$$")


def _fill(scalar: Written, env: Mapping[str, str]) -> tuple[Written, list[str]]:
    wrong: list[str] = []
    style = scalar.style

    def replacement(match: re.Match[str]) -> str:
        nonlocal style
        if match["escaped"]:
            return "$"
        if match["bad"]:
            wrong.append("expected ${NAME} or ${NAME:-default} ($$ stands for $)")
            return ""
        style = Style.FILLED
        value = env.get(match["name"])
        if match["default"] is not None:
            return value or match["default"]
        if value is None:
            name = match["name"]
            wrong.append(f"variable {name} is not set, and ${{{name}}} has no default")
        return value or ""

    return Written(_DOLLAR.sub(replacement, scalar), style), wrong
