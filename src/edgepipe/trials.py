"""What an INT8 file costs in accuracy on a few frames, quickly, again and again.

Labels are not needed: the FP32 network's own detections are the truth. The number is
for comparing INT8 files of one network with each other, layer by layer; what may run
is decided by the gate.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.detector import Detector, Found
from edgepipe.models.engine import Engine
from edgepipe.models.evaluate.agreement import truth_from
from edgepipe.models.evaluate.matching import match
from edgepipe.models.evaluate.precision import mean_precision, rank
from edgepipe.models.load import load_engine
from edgepipe.models.quantise.table import CalibrationTable
from edgepipe.quantisation import USUAL, Quantisation, Scheme

LOWEST_SCORE = 0.05
"""Detections from here on take part, or from a quarter of the working score."""
_NOTHING = Found(
    np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32), 0
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One INT8 file, tried."""

    drop: float
    """100 less the agreement with FP32: COCO's AP (IoU .50 to .95) in points, with
    FP32's detections from the working score on as the truth."""
    ms: float
    """Median CPU time of an inference in milliseconds."""


class Trials:
    """Tries INT8 versions of a network against it. Close it in the end.

    Args:
        work: Makes the INT8 files.
        table: With these ranges.
        images: (height, width, 3) each, other ones than it was calibrated with.
        engine: Which engine runs both.
        scheme: How numbers become INT8.

    Raises:
        ModelError: FP32 finds nothing in any image, or is no detector.
        EngineError: FP32 cannot run.
    """

    def __init__(
        self,
        work: Quantisation,
        table: CalibrationTable,
        images: Sequence[NDArray[np.uint8]],
        *,
        engine: str = "auto",
        scheme: Scheme = USUAL,
    ) -> None:
        self._work, self.table, self._images = work, table, images
        self._engine = engine
        self._scheme = scheme
        # FP32 as it is quantised: what the rewriting changes is not INT8's doing.
        self._folder = tempfile.TemporaryDirectory(prefix="edgepipe-trials-")
        found, self.fp32_ms = self._run(work.file)
        working = work.card.score_threshold
        self._truth = [truth_from(each, working) for each in found]
        self.objects = sum(int(np.sum(each.score >= working)) for each in found)
        if not self.objects:
            self.close()
            raise ModelError(
                f"the FP32 network finds nothing from score {working:g} on in"
                f" {len(images)} frames: they cannot tell good INT8 from bad"
            )

    def __enter__(self) -> "Trials":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files; calling it again does nothing."""
        self._folder.cleanup()

    def of(self, kept: frozenset[str], table: CalibrationTable | None = None) -> Trial:
        """The INT8 file with these layers in FP32, and other ranges if given.

        An engine that refuses the file, or outputs that are no numbers, cost
        everything: 100 points.
        """
        file = self._work.write(
            Path(self._folder.name) / "trial.onnx",
            self.table if table is None else table,
            kept,
            scheme=self._scheme,
        )
        try:
            found, ms = self._run(file)
        except EngineError:
            return Trial(100.0, float("nan"))
        frames = [match(f, t) for f, t in zip(found, self._truth, strict=True)]
        agreement = float(mean_precision(rank(frames))[0])
        return Trial(100 * (1 - agreement), ms)

    def drop_of(self, kept: frozenset[str]) -> float:
        """The drop alone."""
        return self.of(kept).drop

    def _run(self, file: ModelFile) -> tuple[list[Found], float]:
        card = replace(self._work.card, files=(file,))
        engine = load_engine(card, file.precision, self._engine, requests=1, threads=1)
        try:
            return _detect(card, engine, self._images)
        finally:
            engine.close()


def _detect(
    card: ModelCard, engine: Engine, images: Sequence[NDArray[np.uint8]]
) -> tuple[list[Found], float]:
    detector = Detector(
        card,
        engine,
        score=min(LOWEST_SCORE, card.score_threshold / 4),
        iou=card.iou_threshold,
        max_detections=card.max_detections,
        class_agnostic=card.class_agnostic,
    )
    found: list[Found] = []
    times_ns: list[int] = []
    for image in images:
        begun_ns = time.process_time_ns()
        found.append(_found(detector, image))
        times_ns.append(time.process_time_ns() - begun_ns)
    return found, float(np.median(times_ns)) / 1e6


def _found(detector: Detector, image: NDArray[np.uint8]) -> Found:
    """Copies: an engine's outputs are its own memory."""
    (found,) = detector.detect_each(image[np.newaxis])
    return _NOTHING if isinstance(found, BadOutputError) else found
