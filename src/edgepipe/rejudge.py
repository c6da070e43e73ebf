"""The gate's own number for one INT8 file after the other, on frames that stay."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import sqrt
from pathlib import Path
from types import TracebackType

from edgepipe.errors import EngineError, InputError
from edgepipe.judges import judge_of
from edgepipe.models.card import ModelFile
from edgepipe.models.engine import Engine
from edgepipe.models.evaluate.verdict import Drop
from edgepipe.models.load import load_engine
from edgepipe.models.quantise.table import CalibrationTable
from edgepipe.quantisation import Quantisation, Scheme
from edgepipe.samples import Sample
from edgepipe.truth import FrameTruth

SEED = 0


class Rejudge:
    """Judges INT8 versions of a network as the gate does. Close it in the end.

    FP32 runs once; what it says of the frames is kept.

    Args:
        work: Makes the INT8 files.
        samples: The frames.
        labels: What is to be seen in them; None: agreement with FP32.
        scheme: How numbers become INT8.
        engine: Which engine runs both.
        frames: How many the gate will look at in the end.

    Raises:
        EngineError: FP32 cannot run.
    """

    def __init__(
        self,
        work: Quantisation,
        samples: Sequence[Sample],
        labels: FrameTruth | None,
        *,
        scheme: Scheme,
        engine: str,
        frames: int,
    ) -> None:
        self._work, self._samples, self._scheme = work, samples, scheme
        self._frames = max(frames, len(samples))
        self._opened = ExitStack()
        folder = tempfile.TemporaryDirectory(prefix="edgepipe-build-")
        self._folder = Path(self._opened.enter_context(folder))
        self._fp32 = self._load(work.file, engine)
        self._engine = self._fp32.info.engine
        self._judge = judge_of(work.card, self._fp32, self._fp32, labels)
        for sample in samples:
            self._judge.look(sample)

    def __enter__(self) -> "Rejudge":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the engine and the files; calling it again does nothing."""
        self._opened.close()

    def drop(self, table: CalibrationTable, kept: frozenset[str]) -> Drop:
        """What a file loses.

        Raises:
            InputError: There is nothing to be found in the frames.
            EngineError: The engine cannot run the file.
        """
        path = self._folder / "trial.onnx"
        file = self._work.write(path, table, kept, scheme=self._scheme)
        int8 = self._load(file, self._engine, keep=False)
        try:
            self._judge.again(int8, self._samples)
        finally:
            int8.close()
        drop = self._judge.drop(SEED)
        if drop is None:
            raise InputError(
                f"nothing of the network's classes is seen in {len(self._samples)}"
                f" frames: they cannot tell good INT8 from bad"
            )
        return drop

    def expected(self, table: CalibrationTable, kept: frozenset[str]) -> float:
        """The upper bound to be expected with all frames; infinite if it cannot run.

        The drop is that of these frames; how uncertain it is falls with the root of
        their number.
        """
        try:
            drop = self.drop(table, kept)
        except EngineError:
            return float("inf")
        share = min(1.0, len(self._samples) / self._frames)
        return drop.drop + (drop.upper - drop.drop) * sqrt(share)

    def _load(self, file: ModelFile, engine: str, *, keep: bool = True) -> Engine:
        # Alone on its card a file is compared with nothing when it is loaded.
        card = replace(self._work.card, files=(file,))
        loaded = load_engine(card, file.precision, engine, requests=1, threads=1)
        if keep:
            self._opened.callback(loaded.close)
        return loaded
