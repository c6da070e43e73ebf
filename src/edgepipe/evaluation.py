"""What an INT8 file costs in accuracy on a recording, and whether that will do."""

import hashlib
import platform
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from importlib.metadata import version

import numpy as np

from edgepipe.errors import EngineError, InputError, ModelError
from edgepipe.judges import Found, judge_of
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import Engine
from edgepipe.models.evaluate.verdict import Drop, why_not
from edgepipe.models.gate import ClassResult, GateResult, key_of, not_fp32
from edgepipe.models.load import AUTO, load_engine
from edgepipe.pipeline.source import Arrival
from edgepipe.samples import network_inputs
from edgepipe.stages.sources.open import local_path, open_source
from edgepipe.truth import FrameTruth

MAX_DROP = 0.5
"""Points that the upper bound of the drop may reach unless said otherwise."""

Progress = Callable[[int, int], None]
"""Called with how many frames are done, and of how many."""


def no_progress(done: int, total: int) -> None:
    """Show nothing."""
    del done, total


def judge(
    card: ModelCard,
    source: str,
    *,
    labels: FrameTruth | None = None,
    max_drop: float = MAX_DROP,
    engine: str = AUTO,
    every: int = 1,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
    found: Found | None = None,
) -> GateResult:
    """Run FP32 and INT8 over a recording and judge the difference.

    Args:
        card: Lists both files.
        source: Anything that ``run`` reads and that ends.
        labels: What is to be seen (:func:`edgepipe.truth.truth_of`); None: the
            agreement with FP32 is judged.
        max_drop: Points that the upper bound of the drop may reach.
        engine: Name of the library, or ``auto`` for the one that a run would take.
        every: Only each so-many-th frame.
        limit: Most frames.
        seed: Of the bootstrap.
        progress: Told after each frame.
        found: Told what an INT8 detector finds in each frame that is judged.

    Raises:
        InputError: The recording cannot be read or has nothing that can be judged.
        ModelError: The card lists no FP32 or no INT8 file, or one does not fit it, or
            another file lies in its place in the end.
        EngineError: The library cannot run one of them.
    """
    int8 = _file(card, "int8")
    if problem := not_fp32(_file(card, "fp32")):
        raise ModelError(problem)
    # Before minutes of work: what these files are, and how much there is to do.
    key = key_of(card, int8)
    total = _count(source, every, limit)
    digest = hashlib.sha256()
    with ExitStack() as opened:
        tested = _int8_engine(card, int8, engine)
        opened.callback(tested.close)
        info = tested.info
        exact = load_engine(card, "fp32", info.engine, requests=1, threads=1)
        opened.callback(exact.close)
        judge = judge_of(card, exact, tested, labels, found)
        samples = network_inputs(card, source, every=every, limit=limit)
        seen: set[bytes] = set()
        done = 0
        for done, sample in enumerate(samples, start=1):
            image = np.ascontiguousarray(sample.image).data
            digest.update(image)
            # The same picture again is no further evidence, however often it is shown.
            picture = hashlib.sha256(image).digest()
            if picture not in seen:
                seen.add(picture)
                judge.look(sample)
            progress(done, max(done, total))
    if key_of(card, int8) != key:
        raise ModelError(
            f"{int8.path}: it, or the FP32 file, was replaced while it was judged:"
            f" judge it again"
        )
    drop = judge.drop(seed)
    if drop is None:
        raise InputError(_nothing(card, source, labels))
    reason = why_not(drop, max_drop)
    if not reason and judge.is_blind:
        reason = (
            "cannot say: FP32 gives the same answer to every picture, so that INT8 has"
            " nothing to get wrong; take another recording, or a network that sees"
        )
    repeated = done - len(seen)
    notes = () if labels is None else labels.notes
    if repeated:
        notes += (f"{repeated} of {done} frames showed a picture again: not counted",)
    return GateResult(
        model=card.name,
        key=key,
        passed=not reason,
        reason=reason,
        kind=judge.kind,
        metric=judge.metric,
        reference=judge.reference,
        fp32=drop.fp32,
        int8=drop.int8,
        drop=drop.drop,
        upper=drop.upper,
        allowed=max_drop,
        frames=drop.frames,
        objects=drop.objects,
        classes=_classes(card, drop),
        block=drop.block,
        resamples=drop.resamples,
        seed=drop.seed,
        source=_called(source),
        data_sha256=digest.hexdigest(),
        labels=None if labels is None else labels.name,
        labels_sha256=None if labels is None else labels.sha256,
        engine=info.engine,
        engine_version=info.version,
        device=info.device,
        tools=f"edgepipe {version('edgepipe')}; NumPy {np.__version__};"
        f" Python {platform.python_version()}; {platform.machine()}",
        notes=notes,
    )


def _file(card: ModelCard, precision: str) -> ModelFile:
    for file in card.files:
        if file.precision == precision:
            return file
    raise ModelError(
        f"model {card.name!r}: its card lists no {precision} file; both are needed to"
        f" compare them"
    )


def _count(source: str, every: int, limit: int | None) -> int:
    """Frames that will be looked at, unless some are damaged."""
    total = 0
    with closing(open_source(source)) as opened:
        if opened.info.live:
            raise InputError(f"{source}: is a camera; record it, and judge that")
        while total != limit and (arrival := opened.next_arrival()) is not None:
            total += isinstance(arrival, Arrival) and arrival.index % every == 0
    return total


def _int8_engine(card: ModelCard, file: ModelFile, engine: str) -> Engine:
    """INT8 in the library that a run would take."""
    try:
        return load_engine(card, "int8", engine, requests=1, threads=1)
    except EngineError:
        # A run would refuse what is this far from FP32. Here that is what is measured;
        # alone on its card, it is compared with nothing.
        alone = replace(card, files=(file,))
        return load_engine(alone, "int8", engine, requests=1, threads=1)


def _called(source: str) -> str:
    """The recording without the folders in which it lies here."""
    path = local_path(source)
    return source if path is None else path.name


def _classes(card: ModelCard, drop: Drop) -> dict[str, ClassResult]:
    """By name, the most frequent first."""
    most = sorted(drop.classes.items(), key=lambda each: -each[1].objects)
    return {card.class_names[k]: ClassResult(**asdict(each)) for k, each in most}


def _nothing(card: ModelCard, source: str, labels: FrameTruth | None) -> str:
    """What to say where there was no object."""
    if labels is not None:
        return f"{labels.name}: no object of the network's classes in {source}"
    return (
        f"{source}: FP32 finds no object of score {card.score_threshold:g} or more;"
        f" take a recording of what the network is for, or give --labels"
    )
