"""What the tests of model inspection share."""

from pathlib import Path

import pytest

from edgepipe.models.inspect import apart


@pytest.fixture
def same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work on a file, which is done in a process of its own, done in this one.

    Starting one takes longer than the work; that it is started is tested elsewhere.
    """

    def here(scratch: Path) -> None:
        apart.work(scratch)

    monkeypatch.setattr(apart, "_call", here)
