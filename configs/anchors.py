"""Anchors of a head that stand in a file of their own."""

from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.configs.textfile import shown
from edgepipe.errors import ConfigError
from edgepipe.models.head_options import Row

MOST_BYTES = 64 << 20


def read(path: Path) -> tuple[Row, ...]:
    """cx, cy, w, h of each anchor: an array (n, 4) in ``.npy``, or text.

    Text has one anchor a line, its values apart by blanks or commas; what follows a #
    is a comment.

    Raises:
        ConfigError: The file cannot be read or holds something else.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(shown(path), "", "larger than 64 MiB")
        rows = _array(path) if path.suffix == ".npy" else _text(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(shown(path), "", f"cannot be read: {reason}") from error
    except (ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(shown(path), "", f"no anchors: {reason}") from error
    if rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
        shape = "x".join(map(str, rows.shape))
        text = f"expected anchors (n, 4) of cx, cy, w, h, got {shape}"
        raise ConfigError(shown(path), "", text)
    if not np.isfinite(rows).all():
        raise ConfigError(shown(path), "", "an anchor is NaN or infinite")
    cx, cy, w, h = rows.astype(float).T.tolist()
    return tuple(zip(cx, cy, w, h, strict=True))


def _array(path: Path) -> Any:
    rows = np.load(path, allow_pickle=False)
    if rows.dtype.kind not in "fiu":
        raise ValueError(f"an array of {rows.dtype}")
    return rows


def _text(path: Path) -> Any:
    lines = path.read_text("utf-8-sig").splitlines()
    plain = [line.partition("#")[0].replace(",", " ").split() for line in lines]
    return np.array([[float(value) for value in row] for row in plain if row])
