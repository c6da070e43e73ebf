"""An FP32 network, images of a recording, and what INT8 files are made of them."""

import hashlib
import json
import platform
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.identity import model_sha256, preprocessing_sha256
from edgepipe.models.onnx_file import require_model_file
from edgepipe.models.quantise.placement import Layer, layers_of, quantised
from edgepipe.models.quantise.table import (
    REVISION,
    CalibrationKey,
    CalibrationTable,
    replace_file,
    reusable,
)
from edgepipe.samples import Sample

SAVE_EVERY = 16
"""Images between two saves of a calibration that may be interrupted."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How numbers become INT8."""

    bits: int = 8
    """Of weights; 7 keeps processors without VNNI from overflowing."""
    per_channel: bool = True
    """A scale for each channel of weights, or one for all of a layer's."""
    centred: bool = True
    """Whether values on one side of zero are centred where that is exact."""


USUAL = Scheme()

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def no_progress(done: int, total: int) -> None:
    """Show nothing."""
    del done, total


class Quantisation:
    """Makes INT8 files of one network.

    Args:
        card: The model's card; it must list an FP32 file.
        samples: What to calibrate with, as the network is given it.
        source: Where these are from, for people.

    Raises:
        ModelError: There is no such file, it is quantised already, it has no layer
            that can be INT8, or there is no image.
    """

    def __init__(self, card: ModelCard, samples: Iterable[Sample], source: str) -> None:
        from edgepipe.models.quantise.prepare import prepare

        self.card, self.source = card, source
        self.file = fp32_file(card)
        require_model_file(self.file)
        self.network: Any = prepare(self.file.path)
        self.layers: tuple[Layer, ...] = layers_of(self.network)
        if not self.layers:
            raise ModelError(
                f"{self.file.path}: no layer can be INT8 (convolutions and products"
                f" with constant weights can)"
            )
        self.images = [sample.image for sample in samples]
        if not self.images:
            raise ModelError(f"{source}: no usable frame to calibrate with")

    @cached_property
    def tensors(self) -> frozenset[str]:
        """What the layers read: each of these needs a range."""
        return frozenset(layer.reads for layer in self.layers)

    def key(self, method: str) -> CalibrationKey:
        """What a calibration with this method would be known by."""
        return CalibrationKey(
            model_sha256=model_sha256(self.file.path),
            preprocessing_sha256=preprocessing_sha256(self.card),
            data_sha256=_sha256_of_images(self.images),
            images=len(self.images),
            method=method,
            tools=tools(),
        )

    def calibrate(
        self,
        method: str,
        path: Path,
        *,
        progress: Progress = no_progress,
        say: Callable[[str], None] = lambda line: None,
    ) -> CalibrationTable:
        """The ranges by one method, written to a file, or read from it if it fits.

        What was counted lies beside the file until it is written, also when this is
        interrupted: the next call goes on from there.

        Args:
            method: One of :data:`edgepipe.models.quantise.ranges.METHODS`.
            path: The table's file.
            progress: Told how many images have been looked at.
            say: Told why a file that is there is not used again.

        Raises:
            ModelError: The network cannot run, puts out NaN or infinity, or the file
                cannot be written.
        """
        from edgepipe.models.quantise.ranges import METHODS

        wanted = self.key(method)
        table, why_not = reusable(path, wanted)
        if table is not None and self.tensors <= set(table.ranges):
            return table
        if why_not:
            say(why_not)
        counted = self._count(_partial(path), wanted, progress)
        ranges = {name: METHODS[method](each) for name, each in counted.items()}
        lowest = {name: each.lowest for name, each in counted.items()}
        made = CalibrationTable(wanted, ranges, lowest, self.source)
        made.write(path)
        return made

    def _count(self, path: Path, key: CalibrationKey, progress: Progress) -> Any:
        """A histogram of each tensor; what an interrupted call counted is used."""
        from edgepipe.models.quantise.observe import Observer
        from edgepipe.models.quantise.statistics import Statistics, load, save

        same = "|".join(
            str(each)
            for each in (
                key.model_sha256,
                key.preprocessing_sha256,
                key.data_sha256,
                key.images,
                key.tools,
            )
        )
        observer = Observer(self.network, self.tensors, self.card)
        done, before = 0, load(path, same)
        if before is not None and set(before.histograms) == set(self.tensors):
            observer.restore(before.histograms)
            done = before.images
        total = len(self.images)
        try:
            while done < total:
                progress(done, total)
                observer.look(self.images[done])
                done += 1
                if done % SAVE_EVERY == 0:
                    save(path, same, Statistics(done, observer.histograms))
        finally:
            # Whatever ends it, also a signal: other methods read the same counts.
            save(path, same, Statistics(done, observer.histograms))
        progress(total, total)
        return observer.histograms

    def write(
        self,
        path: Path,
        table: CalibrationTable,
        kept: Collection[str] = (),
        *,
        scheme: Scheme = USUAL,
    ) -> ModelFile:
        """Write an INT8 file whole or not at all.

        Args:
            path: The file.
            table: The ranges.
            kept: Names of the layers that stay in FP32.
            scheme: How numbers become INT8.

        Raises:
            ModelError: The network cannot be written as INT8, or the file cannot.
        """
        from edgepipe.models.quantise.centre import centre
        from edgepipe.models.quantise.ranges import SEVEN_BITS_STEPS, STEPS
        from edgepipe.models.quantise.write import note_origin, write_int8

        network, ranges = self.network, table.ranges
        layers = quantised(self.layers, kept)
        if scheme.centred:
            network, layers, ranges = centre(
                network,
                layers,
                ranges,
                table.lowest,
                steps=STEPS if scheme.bits == 8 else SEVEN_BITS_STEPS,
                per_channel=scheme.per_channel,
            )
        written = write_int8(
            network,
            layers,
            ranges,
            per_channel=scheme.per_channel,
            weight_bits=scheme.bits,
        )
        note_origin(written, self._origin(table, kept, scheme))
        data: bytes = written.SerializeToString()
        replace_file(path, data)
        return ModelFile("int8", path, hashlib.sha256(data).hexdigest())

    def _origin(
        self, table: CalibrationTable, kept: Collection[str], scheme: Scheme
    ) -> dict[str, str]:
        """What is written into the file: everything that decided what is in it."""
        key = asdict(table.key)
        return {name: str(value) for name, value in key.items()} | {
            "kept_in_fp32": json.dumps(sorted(kept)),
            "weight_bits": str(scheme.bits),
            "weights_per_channel": str(scheme.per_channel).lower(),
            "centred": str(scheme.centred).lower(),
        }


def fp32_file(card: ModelCard) -> ModelFile:
    """The FP32 file that a card lists.

    Raises:
        ModelError: It lists none.
    """
    for file in card.files:
        if file.precision == "fp32":
            return file
    raise ModelError(f"model {card.name!r}: its card lists no fp32 file to start from")


def tools() -> str:
    """What computes a calibration, with versions."""
    libraries = ((name, import_module(name)) for name in ("onnxruntime", "onnx"))
    versions = [f"{name} {library.__version__}" for name, library in libraries]
    own = f"edgepipe calibration {REVISION}"
    return "; ".join([own, *versions, platform.machine()])


def _partial(path: Path) -> Path:
    """Where what was counted lies."""
    return path.with_name(f"{path.name}.counts.npz")


def _sha256_of_images(images: Iterable[NDArray[np.uint8]]) -> str:
    digest = hashlib.sha256()
    for image in images:
        digest.update(str(image.shape).encode())
        digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()


def int8_path(card: ModelCard, card_path: Path) -> Path:
    """Where a card's INT8 file lies, or would: named after the FP32 file.

    ``yard.onnx`` and ``yard-fp32.onnx`` become ``yard-int8.onnx``, ``fp32.onnx``
    becomes ``int8.onnx``.
    """
    for file in card.files:
        if file.precision == "int8":
            return file.path
    stem = fp32_file(card).path.stem
    base = stem.removesuffix("fp32").rstrip("-_.")
    return card_path.parent / (f"{base}-int8.onnx" if base else "int8.onnx")
