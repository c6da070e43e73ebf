"""Which model card belongs to what a configuration names."""

from pathlib import Path

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard

CARD_SUFFIXES = (".yaml", ".yml")


def card_of(
    path: str, card: str | None, precision: str, where: str
) -> tuple[ModelCard, tuple[str, ...]]:
    """The card of a model, and what is odd about it.

    Args:
        path: Name of a shipped model, or path of a card or of an ``.onnx`` file.
        card: Path of its card; None: shipped with it, or beside it.
        precision: Which of the card's files the path must be.
        where: Place of the model in the configuration, for messages.

    Raises:
        ConfigError: The path is neither a shipped model nor an ``.onnx`` file, or the
            card cannot be used.
        ModelError: There is no such file or no card, or they do not belong together.
    """
    found, warnings = read_card(_card_path(path, card, where))
    if path.endswith(".onnx"):
        _check_file(found, Path(path), precision, where)
    return found, warnings


def card_named(text: str) -> tuple[ModelCard, Path]:
    """The card that a command names, and where it lies.

    Args:
        text: Name of a shipped model, path of a card, or path of an ``.onnx`` file with
            its card beside it.

    Raises:
        ConfigError: The card cannot be used.
        ModelError: There is no such file, or no card beside it.
    """
    path = zoo.card_path(text) if text in zoo.names() else Path(text)
    if not path.exists():
        known = ", ".join(zoo.names())
        raise ModelError(f"{text}: no such card or model (that ship: {known})")
    if path.suffix == ".onnx":
        path = path.with_suffix(".yaml")
    if not path.exists():
        raise ModelError(
            f"{text}: has no model card; edgepipe model inspect {text} proposes one"
        )
    return read_card(path)[0], path


def _card_path(name: str, card: str | None, where: str) -> Path:
    """Where the model's card lies: shipped, named, or beside the model."""
    if card is not None:
        return Path(card)
    if name in zoo.names():
        return zoo.card_path(name)
    path = Path(name)
    if path.suffix in CARD_SUFFIXES:
        return path
    if path.suffix != ".onnx":
        known = ", ".join(zoo.names())
        raise ConfigError(
            "",
            f"{where}.path",
            f"{name!r} is neither an .onnx file, nor a model card (.yaml), nor one of"
            f" {known}",
        )
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    beside = path.with_suffix(".yaml")
    if not beside.exists():
        raise ModelError(
            f"{path}: has no model card; edgepipe model inspect {path} --write "
            f"{beside} proposes one, or name one with {where}.card"
        )
    return beside


def _check_file(card: ModelCard, path: Path, precision: str, where: str) -> None:
    """The file that the user named must be the one that the card describes."""
    listed = {file.path.resolve(): file.precision for file in card.files}
    found = listed.get(path.resolve())
    if found is None:
        names = ", ".join(file.path.name for file in card.files)
        raise ModelError(f"{path}: its card describes {names} and not this file")
    if found != precision:
        raise ModelError(
            f"{path}: its card says {found}; set {where}.precision to {found}, "
            f"it is {precision} now"
        )
