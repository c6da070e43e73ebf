"""Trains three detectors that edgepipe did not make, and exports them as users do.

    python benchmarks/models/train_strangers.py OUT [--minutes 6] [--only ssd]

``OUT/yolov8-like.onnx``, ``OUT/ssd-like.onnx`` with ``OUT/ssd-like-anchors.txt``,
``OUT/peaks.onnx`` and ``OUT/names.txt``. Weights are learned from drawn scenes
(``synthetic:``), so that there is something that INT8 can spoil: with random weights a
gate would judge noise. Needs ``pip install torch onnx`` (the CPU build is enough).
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from strangers_losses import (
    HEIGHT,
    WIDTH,
    Batch,
    anchor_free_loss,
    anchored_loss,
    batches,
    peaks_loss,
)
from strangers_nets import (
    Anchored,
    AnchoredExport,
    AnchorFree,
    AnchorFreeExport,
    Peaks,
    PeaksExport,
    anchors,
)
from torch import Tensor, nn

from edgepipe.stages.sources.scene import CLASS_NAMES

BATCH = 16
RATE = 3e-3
OPSET = 17


@dataclass(frozen=True)
class Stranger:
    """One network: how it is fed, trained and exported."""

    net: Callable[[], nn.Module]
    feed: Callable[[Tensor], Tensor]
    """From BGR 0..255 to the network's input."""
    loss: Callable[[tuple[Tensor, Tensor], Batch], Tensor]
    export: Callable[[nn.Module], nn.Module]
    outputs: tuple[str, ...]


STRANGERS = {
    "yolov8-like": Stranger(
        AnchorFree,
        lambda x: x.flip(1) / 255,
        anchor_free_loss,
        lambda net: AnchorFreeExport(net, HEIGHT, WIDTH),
        ("output0",),
    ),
    "ssd-like": Stranger(
        Anchored,
        lambda x: x.flip(1) / 127.5 - 1,
        anchored_loss,
        AnchoredExport,
        ("scores", "offsets"),
    ),
    "peaks": Stranger(
        Peaks,
        lambda x: (x - 127.5) / 64,
        peaks_loss,
        lambda net: PeaksExport(net, HEIGHT, WIDTH),
        ("detections",),
    ),
}


def train(stranger: Stranger, minutes: float) -> nn.Module:
    """The network after so many minutes of work, with averaged weights."""
    torch.manual_seed(0)
    net = stranger.net()
    average = torch.optim.swa_utils.AveragedModel(
        net,
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99),
        use_buffers=True,
    )
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=1e-4)
    source = batches(BATCH)
    batch, begun, step = next(source), time.process_time(), 0
    while (done := (time.process_time() - begun) / (60 * minutes)) < 1:
        for group in optimiser.param_groups:
            rate = 0.02 + 0.49 * (1 + math.cos(math.pi * done))
            group["lr"] = RATE * min(1, (step + 1) / 50) * rate
        loss = stranger.loss(net(stranger.feed(batch.images)), batch)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimiser.step()
        average.update_parameters(net)
        if step % 100 == 0:
            print(f"step {step}, {done:.0%}, loss {loss.item():.3f}", flush=True)
        batch, step = next(source), step + 1
    print(f"{step} steps", flush=True)
    return average.module.eval()


def write_anchors(path: Path) -> None:
    """cx, cy, w, h of each anchor as shares of the image, one a line."""
    rows = anchors(HEIGHT, WIDTH) / torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT])
    lines = [" ".join(f"{value:.9g}" for value in row) for row in rows.tolist()]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--minutes", type=float, default=6.0, help="of processor time for each"
    )
    parser.add_argument("--only", choices=STRANGERS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "names.txt").write_text("\n".join(CLASS_NAMES) + "\n")
    write_anchors(args.folder / "ssd-like-anchors.txt")
    for name, stranger in STRANGERS.items():
        if args.only not in (None, name):
            continue
        net = train(stranger, args.minutes)
        path = args.folder / f"{name}.onnx"
        torch.onnx.export(
            stranger.export(net).eval(),
            (torch.zeros(1, 3, HEIGHT, WIDTH),),
            path,
            input_names=["images"],
            output_names=list(stranger.outputs),
            opset_version=OPSET,
            dynamo=False,
        )
        print(path)


if __name__ == "__main__":
    main()
