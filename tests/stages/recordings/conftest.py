"""Clips are made as for the tests of files."""

from tests.stages.sources.conftest import make_clip

__all__ = ["make_clip"]
