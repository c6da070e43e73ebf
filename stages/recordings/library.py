"""The libraries of the extra ``robot``, imported when they are needed."""

from importlib import import_module
from types import ModuleType

from edgepipe.errors import InputError


def need(module: str, place: str) -> ModuleType:
    """Import a module of the extra.

    Raises:
        InputError: It is not installed; the message says what to install for ``place``.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{place}: needs the extra 'robot': pip install 'edgepipe[robot]' ({error})"
        ) from error
