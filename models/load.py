"""From a model card to a running engine; every check comes before the first frame."""

from collections.abc import Callable
from typing import Any

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import AsyncEngine
from edgepipe.models.heads import build_reader, check_outputs
from edgepipe.models.self_check import grey_image, require_same_answer

AUTO = "auto"
ENGINES = ("openvino", "onnxruntime")
"""In the order in which ``auto`` tries them: the faster one first."""
BY_NAME = ("torch", "torch-cuda")
"""Engines that ``auto`` never takes: the first is slow, the second needs a GPU."""

_Loader = Callable[[ModelCard, ModelFile, int, int, str, int], AsyncEngine]


def load_engine(
    card: ModelCard,
    precision: str,
    engine: str = AUTO,
    *,
    requests: int,
    threads: int,
    batch_max: int = 1,
) -> AsyncEngine:
    """Load a model and prove that it fits its card and computes what it should.

    The first is found out on one grey image, the second for INT8 only, by comparison
    with the card's FP32 file in the same engine, if the card has one and it is there.

    Args:
        card: The model's description.
        precision: Which of the card's files: ``int8`` or ``fp32``.
        engine: ``openvino``, ``onnxruntime``, ``torch``, ``torch-cuda``, or ``auto``
            for the first of the first two that is installed and can run the model;
            ``info.chosen_because`` tells which.
        requests: How many callers may infer at once.
        threads: Threads for one inference.
        batch_max: Most images that will be given at once; more are taken, one by one.

    Raises:
        ModelError: The file is missing, damaged or another one than the card says;
            or the network's input, outputs or classes do not fit the card.
        EngineError: The engine is unknown, not installed, cannot run the model or
            computes rubbish from it on this processor.
    """
    build_reader(card)
    file = _find(card, precision)
    if file is not None:
        return _load(card, file, engine, requests, threads, batch_max)
    there = ", ".join(file.precision for file in card.files)
    raise ModelError(
        f"model {card.name!r} has no {precision!r} file (the card lists: {there})"
    )


def _find(card: ModelCard, precision: str) -> ModelFile | None:
    """The card's file of a precision."""
    return next((file for file in card.files if file.precision == precision), None)


def _load(
    card: ModelCard,
    file: ModelFile,
    engine: str,
    requests: int,
    threads: int,
    batch_max: int,
) -> AsyncEngine:
    """The engine asked for, or the first that works."""
    if engine != AUTO:
        if engine not in LOADERS:
            raise EngineError(
                f"unknown engine {engine!r} "
                f"(known: {', '.join((AUTO, *ENGINES, *BY_NAME))})"
            )
        because = "asked for by name"
        return _proved(engine, card, file, requests, threads, because, batch_max)
    refusals: list[str] = []
    for name in ENGINES:
        because = "; ".join(["auto", *refusals, "first that works"])
        try:
            return _proved(name, card, file, requests, threads, because, batch_max)
        except EngineError as error:
            refusals.append(str(error))
    raise EngineError(f"no engine can run {file.path}: {'; '.join(refusals)}")


def _proved(
    name: str,
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int,
) -> AsyncEngine:
    """An engine that fits the card and, with INT8, does not compute rubbish."""
    engine = _fitting(name, card, file, requests, threads, because, batch_max)
    truth = _find(card, "fp32") if file.precision == "int8" else None
    if truth is None or not truth.path.exists():
        return engine
    try:
        reference = _fitting(name, card, truth, 1, threads, "to check INT8")
        try:
            names = str(file.path), str(truth.path)
            require_same_answer(engine, reference, card, names)
        finally:
            reference.close()
    except BaseException:
        engine.close()
        raise
    return engine


def _fitting(
    name: str,
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int = 1,
) -> AsyncEngine:
    """An engine whose outputs are what the card's head reads."""
    engine = LOADERS[name](card, file, requests, threads, because, batch_max)
    try:
        check_outputs(card, build_reader(card), engine.infer(grey_image(card)))
    except BaseException:
        engine.close()
        raise
    return engine


def _openvino(
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int = 1,
) -> AsyncEngine:
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
        batch_max=batch_max,
    )


def _onnxruntime(
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int = 1,
) -> AsyncEngine:
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
        batch_max=batch_max,
    )


def _torch(
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int = 1,
) -> AsyncEngine:
    """Import PyTorch, which is an optional extra, only when it is wanted."""
    engine: AsyncEngine = _torch_engines().TorchEngine(
        card,
        file,
        requests=requests,
        threads_per_request=threads,
        chosen_because=because,
        batch_max=batch_max,
    )
    return engine


def _torch_cuda(
    card: ModelCard,
    file: ModelFile,
    requests: int,
    threads: int,
    because: str,
    batch_max: int = 1,
) -> AsyncEngine:
    """The same on a GPU."""
    engine: AsyncEngine = _torch_engines().TorchCudaEngine(
        card,
        file,
        requests=requests,
        threads_per_request=threads,
        chosen_because=because,
        batch_max=batch_max,
    )
    return engine


def _torch_engines() -> Any:
    try:
        from edgepipe.models.pytorch import engine
    except ImportError as error:
        raise EngineError(
            f"torch cannot be imported ({error}): pip install 'edgepipe[torch]'"
        ) from error
    return engine


LOADERS: dict[str, _Loader] = {
    "openvino": _openvino,
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "torch-cuda": _torch_cuda,
}
"""How each engine loads: card, file, requests, threads, chosen because, batch_max."""
