"""What the documents show works, and what they point at exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgepipe.configs import load

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(document: Path, language: str) -> Iterator[str]:
    """The fenced blocks of one language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    return iter(re.findall(pattern, document.read_text(), re.MULTILINE | re.DOTALL))


def name(document: Path) -> str:
    """What pytest calls a document."""
    return document.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_python_in_a_document_runs_from_top_to_bottom(document: Path) -> None:
    program = "\n".join(blocks(document, "python"))
    exec(compile(program, name(document), "exec"), {"__name__": "document"})


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_whole_configs_in_a_document_are_accepted(
    document: Path, tmp_path: Path
) -> None:
    file = tmp_path / "shown.yaml"
    for text in blocks(document, "yaml"):
        if text.startswith("version:"):
            file.write_text(text)
            load.read(str(file))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    missing = [link for link in links if not (document.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_make_targets_a_document_names_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    shown = re.findall(r"(?:^|`)make ((?:[a-z]+ ?)+)", document.read_text(), re.M)
    assert {word for words in shown for word in words.split()} <= targets
