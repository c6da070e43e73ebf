"""From a model card to a running engine; every check comes before the first frame."""

from collections.abc import Callable

import numpy as np

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import Engine
from edgepipe.models.heads import build_head, check_outputs

AUTO = "auto"
ENGINES = ("openvino", "onnxruntime")
"""In the order in which ``auto`` tries them: the faster one first."""

_Loader = Callable[[ModelCard, ModelFile, int, int, str], Engine]


def load_engine(
    card: ModelCard,
    precision: str,
    engine: str = AUTO,
    *,
    requests: int,
    threads: int,
) -> Engine:
    """Load a model and prove on one grey image that it fits its card.

    Args:
        card: The model's description.
        precision: Which of the card's files: ``int8`` or ``fp32``.
        engine: ``openvino``, ``onnxruntime``, or ``auto`` for the first that is
            installed and can run the model; ``info.chosen_because`` tells which.
        requests: How many callers may infer at once.
        threads: Threads for one inference.

    Raises:
        ModelError: The file is missing, damaged or another one than the card says;
            or the network's input, outputs or classes do not fit the card.
        EngineError: The engine is unknown, not installed or cannot run the model.
    """
    head = build_head(card)
    file = _file(card, precision)
    loaded = _load(card, file, engine, requests, threads)
    try:
        grey = np.full((1, card.height, card.width, 3), 114, np.uint8)
        check_outputs(card, head, loaded.infer(grey))
    except BaseException:
        loaded.close()
        raise
    return loaded


def _file(card: ModelCard, precision: str) -> ModelFile:
    """The card's file of a precision."""
    for file in card.files:
        if file.precision == precision:
            return file
    there = ", ".join(file.precision for file in card.files)
    raise ModelError(
        f"model {card.name!r} has no {precision!r} file (the card lists: {there})"
    )


def _load(
    card: ModelCard, file: ModelFile, engine: str, requests: int, threads: int
) -> Engine:
    """The engine asked for, or the first that works."""
    if engine != AUTO:
        loader = _LOADERS.get(engine)
        if loader is None:
            raise EngineError(
                f"unknown engine {engine!r} (known: {', '.join((AUTO, *ENGINES))})"
            )
        return loader(card, file, requests, threads, "asked for by name")
    refusals: list[str] = []
    for name in ENGINES:
        because = "; ".join(["auto", *refusals, "first that works"])
        try:
            return _LOADERS[name](card, file, requests, threads, because)
        except EngineError as error:
            refusals.append(str(error))
    raise EngineError(f"no engine can run {file.path}: {'; '.join(refusals)}")


def _openvino(
    card: ModelCard, file: ModelFile, requests: int, threads: int, because: str
) -> Engine:
    """Import OpenVINO only when it is wanted: it takes a fifth of a second."""
    try:
        from edgepipe.models.openvino_engine import OpenVinoEngine
    except ImportError as error:
        raise EngineError(
            f"openvino cannot be imported ({error}): pip install openvino"
        ) from error
    return OpenVinoEngine(
        card,
        file,
        requests=requests,
        threads_per_request=threads,
        chosen_because=because,
    )


def _onnxruntime(
    card: ModelCard, file: ModelFile, requests: int, threads: int, because: str
) -> Engine:
    """Import onnxruntime, which is an optional extra, only when it is wanted."""
    try:
        from edgepipe.models.onnxruntime_engine import OnnxRuntimeEngine
    except ImportError as error:
        raise EngineError(
            f"onnxruntime cannot be imported ({error}): pip install 'edgepipe[models]'"
        ) from error
    return OnnxRuntimeEngine(
        card,
        file,
        requests=requests,
        threads_per_request=threads,
        chosen_because=because,
    )


_LOADERS: dict[str, _Loader] = {"openvino": _openvino, "onnxruntime": _onnxruntime}
