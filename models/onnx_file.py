"""Checks on a model file that need no inference library."""

import hashlib
from pathlib import Path

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelFile
from edgepipe.models.onnx_parts import varint

_NEEDED_FIELDS = {7, 8}
"""A ModelProto's graph and the operator sets it uses."""
_LAST_FIELD = 26
"""Highest field number of ONNX's ModelProto with room for later versions."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def require_model_file(file: ModelFile) -> None:
    """Check that the file is there, whole, an ONNX model, and the one expected.

    Raises:
        ModelError: One line that names the file and what is wrong with it.
    """
    data = _read(file.path)
    if not data:
        raise ModelError(f"{file.path}: the model file is empty")
    if not _is_onnx(data):
        raise ModelError(f"{file.path}: not an ONNX model, or cut short")
    if file.sha256 is not None:
        found = hashlib.sha256(data).hexdigest()
        if found != file.sha256.lower():
            raise ModelError(
                f"{file.path}: expected sha256 {file.sha256}, the file has {found}"
            )


def _read(path: Path) -> memoryview:
    """The bytes of a file."""
    try:
        return memoryview(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the model file: {reason}") from error


def _is_onnx(data: memoryview) -> bool:
    """Whether the bytes are the fields of a ModelProto, complete and with a graph.

    Only the outermost fields are walked: a text file or a truncated download fails
    here in microseconds with a clear message, where a library would give its own.
    """
    position, seen = 0, set[int]()
    try:
        while position < len(data):
            key, position = varint(data, position)
            field, kind = key >> 3, key & 7
            if not 1 <= field <= _LAST_FIELD:
                return False
            if kind == _VARINT:
                _, position = varint(data, position)
            elif kind == _BYTES:
                length, position = varint(data, position)
                position += length
                seen.add(field)
            elif kind in (_FIXED32, _FIXED64):
                position += 4 if kind == _FIXED32 else 8
            else:
                return False
    except IndexError:
        return False
    return position == len(data) and seen >= _NEEDED_FIELDS
