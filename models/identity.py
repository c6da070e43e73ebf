"""What a file, and a card's way of making input, are known by: their hashes."""

import hashlib
import json
from pathlib import Path

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.onnx_parts import external_files

_CHUNK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, as 64 hexadecimal digits.

    Raises:
        ModelError: It cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the file: {reason}") from error
    return digest.hexdigest()


def model_sha256(path: Path) -> str:
    """What a network is known by: of an ONNX file, and of the files with its weights.

    Without such files it is the file's own.

    Raises:
        ModelError: One of them cannot be read.
    """
    own = sha256_of(path)
    places = external_files(path)
    if not places:
        return own
    digest = hashlib.sha256(own.encode())
    for place in places:
        digest.update(f"\0{place}\0{sha256_of(path.parent / place)}".encode())
    return digest.hexdigest()


def preprocessing_sha256(card: ModelCard) -> str:
    """A hash of everything in a card that decides what the network is given.

    Names of files, head, classes and thresholds are not in it.
    """
    facts = {
        "input": card.input_name,
        "size": [card.height, card.width],
        "layout": card.layout.value,
        "type": card.input_type.value,
        "color": card.color.value,
        "mean": card.mean,
        "std": card.std,
        "align": card.align.value,
        "pad_value": card.pad_value,
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def head_sha256(card: ModelCard) -> str:
    """A hash of everything in a card that decides what becomes of the output."""
    facts = {
        "head": card.head,
        "outputs": card.outputs,
        "options": card.head_options.said(),
        "classes": card.class_names,
        "score": card.score_threshold,
        "iou": card.iou_threshold,
        "most": card.max_detections,
        "agnostic": card.class_agnostic,
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
