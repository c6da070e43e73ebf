"""Histograms on disk, so that a calibration that was interrupted goes on.

The file holds what was counted and after how many images. Whoever goes on shows the
same images again from there: the key says whether they are the same.
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from zipfile import BadZipFile

import numpy as np

from edgepipe.models.quantise.histogram import BINS, Histogram
from edgepipe.models.quantise.table import replace_file


class Statistics(NamedTuple):
    """What has been counted so far."""

    images: int
    """How many images were looked at."""
    histograms: Mapping[str, Histogram]


def save(path: Path, key: str, statistics: Statistics) -> None:
    """Write the statistics whole or not at all.

    Raises:
        ModelError: They cannot be written.
    """
    names = sorted(statistics.histograms)
    found = [statistics.histograms[name] for name in names]
    memory = io.BytesIO()
    np.savez_compressed(
        memory,
        about=np.array(
            json.dumps({"key": key, "images": statistics.images, "tensors": names})
        ),
        limits=np.array([each.limit for each in found]),
        largest=np.array([each.largest for each in found]),
        lowest=np.array([each.lowest for each in found]),
        counts=np.array([each.counts for each in found]).reshape(-1, BINS),
    )
    replace_file(path, memory.getvalue())


def load(path: Path, key: str) -> Statistics | None:
    """The statistics that were saved under the key; None if there are none such.

    A damaged file is none: it costs only the time to count again.
    """
    try:
        # Bytes first: on a damaged file np.load leaves its own handle open.
        memory = io.BytesIO(path.read_bytes())
        with np.load(memory, allow_pickle=False) as arrays:
            about = cast(dict[str, Any], json.loads(str(arrays["about"])))
            if about["key"] != key:
                return None
            histograms = {
                str(name): Histogram(float(limit), float(largest), float(low), counts)
                for name, limit, largest, low, counts in zip(
                    about["tensors"],
                    arrays["limits"],
                    arrays["largest"],
                    arrays["lowest"],
                    arrays["counts"].astype(np.int64),
                    strict=True,
                )
            }
            return Statistics(int(about["images"]), histograms)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        return None
