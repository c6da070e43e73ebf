"""Whether a batch costs less than its images one after the other: c(b) / c(1).

    python benchmarks/batching.py models/zoo/nanodet-g/card.yaml

Every file of the model in every engine; OpenVINO runs a batch in one go, in FP32, too,
where edgepipe itself does not. ``one by one`` is the same engine with a network for
single images. All of them take turns, again and again: what else the machine does hits
all alike. The time is that of the processor, so waiting for it does not count: it is
what a batch takes from other work. ``best`` is the shortest time by the wall clock.
With ``--threads 2`` each call may use two threads: its processor time then says nothing
about how long it takes, ``best`` does.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from edgepipe.configs.model_card import read_card
from edgepipe.models import openvino_engine
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.load import ENGINES, LOADERS
from edgepipe.models.self_check import probe_image

SIZES = (1, 2, 4)
WARM_UP = 5
RESAMPLED = 2000


def load(card: ModelCard, threads: int) -> dict[str, Engine]:
    """Each file in each engine; OpenVINO with batches and without."""
    openvino_engine.BATCHED = ("int8", "fp32")
    engines: dict[str, Engine] = {}
    for file in sorted(card.files, key=lambda file: file.precision, reverse=True):
        for name in ENGINES:
            make = LOADERS[name]
            key = f"{file.precision}, {name}"
            engines[f"{key}, one by one"] = make(card, file, 1, threads, "measured", 1)
            if name == "openvino":
                engines[f"{key}, in one go"] = make(
                    card, file, 1, threads, "measured", max(SIZES)
                )
    return engines


def ratio(times: list[float], alone: list[float]) -> str:
    """Ratio of the medians and its 95 % interval, by resampling whole rounds."""
    random = np.random.default_rng(0)
    both = np.array([times, alone])
    drawn = both[:, random.integers(0, both.shape[1], (RESAMPLED, both.shape[1]))]
    medians = np.median(drawn, axis=2)
    low, high = np.percentile(medians[0] / medians[1], [2.5, 97.5])
    return f"{np.median(times) / np.median(alone):.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Load, then measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("card", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    card, _ = read_card(args.card)
    engines = load(card, args.threads)
    image = probe_image(card.height, card.width)
    cpu: dict[tuple[str, int], list[float]] = {}
    best: dict[tuple[str, int], float] = {}
    for number in range(args.rounds + WARM_UP):
        for name, engine in engines.items():
            for size in SIZES:
                images = np.repeat(image, size, axis=0)
                begin = time.perf_counter_ns(), time.process_time_ns()
                engine.infer(images)
                wall_ms = (time.perf_counter_ns() - begin[0]) / 1e6
                cpu_ms = (time.process_time_ns() - begin[1]) / 1e6
                if number >= WARM_UP:
                    key = name, size
                    cpu.setdefault(key, []).append(cpu_ms)
                    best[key] = min(best.get(key, wall_ms), wall_ms)
    print(f"{'':32} {'b':>2} {'CPU ms':>8}  c(b)/c(1)            best ms  by c(1)")
    for (name, size), times in cpu.items():
        shortest = best[name, size]
        print(
            f"{name:32} {size:2} {np.median(times):8.2f}"
            f"  {ratio(times, cpu[name, 1]):20} {shortest:7.2f}"
            f"  {shortest / best[name, 1]:.2f}"
        )
    for name, engine in engines.items():
        print(f"{name}: {engine.info.version}, {engine.info.batching}")
        engine.close()


if __name__ == "__main__":
    main()
