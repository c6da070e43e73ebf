"""How fast both engines run a model's files, and how far INT8 is from FP32.

    python benchmarks/models/time_engines.py models/zoo/nanodet-g/card.yaml

One thread, all variants in turn, again and again. Time is the processor's: what else
runs on the machine hardly shows, and on a machine to itself it is also the clock's.
``off`` is what the check at the start looks at: how far the answer to a drawn image is
from that of FP32, for each output. ``--as-read`` adds OpenVINO without the repair of
signed pairs (`models/openvino_graph.py`). With ONEDNN_MAX_CPU_ISA in the environment
(AVX2, AVX2_VNNI, AVX512_CORE) OpenVINO computes as on a lesser processor.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.models import openvino_engine
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.load import ENGINES, LOADERS
from edgepipe.models.self_check import grey_image, probe_image

RESAMPLED = 2000


def load(card: ModelCard, as_read: bool) -> dict[str, Engine]:
    """Every file in every engine, unchecked; FP32 in OpenVINO is the first."""
    files = sorted(card.files, key=lambda file: file.precision)
    engines = {
        f"{file.precision}, {name}": LOADERS[name](card, file, 1, 1, "measured", 1)
        for name in ENGINES
        for file in files
    }
    if as_read:
        repair = openvino_engine.join_signed_pairs
        openvino_engine.join_signed_pairs = lambda model: None
        raw = LOADERS["openvino"](card, files[-1], 1, 1, "measured", 1)
        openvino_engine.join_signed_pairs = repair
        engines[f"{files[-1].precision} as read, openvino"] = raw
    return engines


def answer(engine: Engine, card: ModelCard) -> dict[str, NDArray[np.float32]]:
    """What a drawn image changes in each output, as against a grey one."""
    before = {
        name: array.copy() for name, array in engine.infer(grey_image(card)).items()
    }
    after = engine.infer(probe_image(card.height, card.width))
    return {name: after[name] - array for name, array in before.items()}


def interval(values: list[float]) -> str:
    """The median and its 95 % interval, by resampling."""
    random = np.random.default_rng(0)
    drawn = random.choice(values, (RESAMPLED, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return f"{np.median(values):6.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Load, compare, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("card", type=Path)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--as-read", action="store_true")
    args = parser.parse_args()
    card, _ = read_card(args.card)
    engines = load(card, args.as_read)
    truth = answer(next(iter(engines.values())), card)
    off: dict[str, str] = {}
    for name, engine in engines.items():
        found = answer(engine, card)
        off[name] = ", ".join(
            f"{key} {np.linalg.norm(found[key] - is_) / np.linalg.norm(is_):.2f}"
            for key, is_ in truth.items()
        )
    image = probe_image(card.height, card.width)
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(args.rounds + 10):
        for name, engine in engines.items():
            begin = time.process_time_ns()
            engine.infer(image)
            if number >= 10:
                times[name].append((time.process_time_ns() - begin) / 1e6)
    for name, engine in engines.items():
        print(f"{name:24} {interval(times[name])} CPU ms   off {off[name]}")
        engine.close()


if __name__ == "__main__":
    main()
