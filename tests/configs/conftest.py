"""Configurations that many tests begin with, and how they read them."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from edgepipe.configs import load
from edgepipe.errors import ConfigErrors

SMALLEST = "version: 1\nstreams:\n  - id: front\n    source: {uri: a.mp4}\n"
"""Four lines with everything that is required; more may follow."""

Complaints = Callable[..., list[str]]


@pytest.fixture
def smallest() -> str:
    """The smallest configuration that is accepted."""
    return SMALLEST


@pytest.fixture
def complaints() -> Complaints:
    """Read a text that is refused and give its messages, one for each mistake."""

    def read(
        text: str | bytes,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            load.parse(text, "f.yaml", overrides, env)
        return str(caught.value).split("\n")

    return read
