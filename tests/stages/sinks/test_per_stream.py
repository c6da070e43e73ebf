"""One file for all streams, or one for each."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sinks.per_stream import PerStream, path_for
from edgepipe.stages.sinks.rows import RowFile


def test_a_path_without_a_mark_is_one_file_for_all_and_opened_at_once(
    tmp_path: Path,
) -> None:
    files = PerStream(tmp_path / "all.txt", RowFile)
    assert (tmp_path / "all.txt").exists()
    assert files.of("front") is files.of("rear")
    files.close()


def test_a_path_with_a_mark_is_a_file_for_each_stream(tmp_path: Path) -> None:
    files = PerStream(tmp_path / "{stream}" / "tracks-{stream}.txt", RowFile)
    for stream in ("front", "rear", "front"):
        files.of(stream).write(f"{stream}\n".encode())
    files.close()
    written = tmp_path / "front" / "tracks-front.txt"
    assert written.read_text() == "front\nfront\n"
    assert (tmp_path / "rear" / "tracks-rear.txt").read_text() == "rear\n"


def test_the_folder_that_holds_the_files_is_checked_at_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FileExistsError):
        PerStream(tmp_path / "taken" / "{stream}.txt", RowFile)


@pytest.mark.parametrize(
    ("stream", "part"),
    [
        ("front", "front"),
        ("Kamera-2_a.b", "Kamera-2_a.b"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("Straße 3", "Straße 3"),
        ("{stream}", "%7Bstream%7D"),
    ],
)
def test_the_id_of_a_stream_becomes_one_safe_part(stream: str, part: str) -> None:
    assert path_for(Path("out/{stream}/x.txt"), stream) == Path(f"out/{part}/x.txt")


ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(ids, ids)
def test_different_streams_never_share_a_file_and_never_leave_the_folder(
    one: str, other: str
) -> None:
    paths = [path_for(Path("out/{stream}"), stream) for stream in (one, other)]
    assert (paths[0] == paths[1]) == (one == other)
    assert all(path.parent == Path("out") and path.name != ".." for path in paths)


def test_closing_closes_every_file_even_after_an_error(tmp_path: Path) -> None:
    closed: list[str] = []

    class Fragile:
        def __init__(self, path: Path) -> None:
            self.name = path.name

        def close(self) -> None:
            closed.append(self.name)
            if self.name == "b":
                raise OSError("b is broken")

    files = PerStream(tmp_path / "{stream}", Fragile)
    for stream in "abc":
        files.of(stream)
    with pytest.raises(OSError, match="b is broken"):
        files.close()
    assert sorted(closed) == ["a", "b", "c"]
