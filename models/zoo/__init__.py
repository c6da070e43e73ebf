"""The models that ship with edgepipe: one folder each, with a card and licences."""

from pathlib import Path

from edgepipe.errors import ModelError

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Names of the packaged models, sorted."""
    return tuple(sorted(card.parent.name for card in _FOLDER.glob("*/card.yaml")))


def card_path(name: str) -> Path:
    """The card of a packaged model; file names in it are relative to its folder.

    Raises:
        ModelError: No packaged model has that name.
    """
    if name not in names():
        raise ModelError(
            f"no packaged model {name!r} (there are: {', '.join(names())})"
        )
    return _FOLDER / name / "card.yaml"
