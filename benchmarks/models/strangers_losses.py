"""What the three small detectors are trained by, and on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code has
from numpy.typing import NDArray
from strangers_nets import BINS, CLASSES, STRIDES, anchors, centres, sides
from torch import Tensor

from edgepipe.stages.sources.scene import Scene

HEIGHT, WIDTH = 192, 320
SCENES, FRAMES = 700, 4
"""Scenes that are drawn, and frames of each."""
FIRST_SEED = 10_000
_REACH = (0.0, 40.0, 80.0, 1e9)
"""Longest side in pixels up to which an object belongs to a level."""
_NEGATIVES = 3
"""Background anchors that count for each anchor on an object."""
VARIANCES = (0.1, 0.1, 0.2, 0.2)


@dataclass(frozen=True)
class Batch:
    """Images with what is in them."""

    images: Tensor
    """(b, 3, height, width) BGR, 0..255."""
    boxes: list[Tensor]
    """For each image (n, 4): x1, y1, x2, y2 in pixels."""
    kinds: list[Tensor]
    """For each image (n,)."""


def drawn() -> tuple[
    NDArray[np.uint8], list[NDArray[np.float32]], list[NDArray[np.int64]]
]:
    """All the images, with their boxes and classes."""
    images, boxes, kinds = [], [], []
    for number in range(SCENES):
        scene = Scene(FIRST_SEED + number, WIDTH, HEIGHT, 1 + number % 8)
        for index in range(0, 40 * FRAMES, 40):
            truth = scene.truth(index)
            images.append(scene.image(index))
            boxes.append(truth.xyxy.astype(np.float32))
            kinds.append(truth.class_id.astype(np.int64))
    return np.stack(images), boxes, kinds


def batches(size: int, seed: int = 0) -> Iterator[Batch]:
    """Random batches without end: mirrored, brightened, with noise."""
    images, boxes, kinds = drawn()
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.integers(0, len(images), size)
        picked, where = [], []
        for index in chosen:
            image, box = images[index].astype(np.float32), boxes[index].copy()
            if rng.random() < 0.5:
                image, box[:, [0, 2]] = image[:, ::-1], WIDTH - box[:, [2, 0]]
            image = image * rng.uniform(0.7, 1.2) + rng.uniform(-15, 15)
            image = image + rng.normal(0, rng.uniform(1, 8), image.shape)
            picked.append(np.clip(image, 0, 255).transpose(2, 0, 1))
            where.append(torch.from_numpy(box))
        tensor = torch.from_numpy(np.stack(picked).astype(np.float32))
        yield Batch(tensor, where, [torch.from_numpy(kinds[index]) for index in chosen])


def overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and generalised IoU (Rezatofighi et al., 2019) of boxes (..., 4)."""
    inside = (
        torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])
    ).clamp(0)
    common = inside.prod(-1)
    area = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    union = area - common
    hull = torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])
    whole = hull.prod(-1)
    iou = common / union.clamp(1e-6)
    return iou, iou - (whole - union) / whole.clamp(1e-6)


def anchor_free_loss(out: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    """Quality focal loss, GIoU and cross-entropy of bins (Li et al., 2020)."""
    logits, bins = out
    where, strides = centres(HEIGHT, WIDTH, STRIDES)
    total = logits.new_zeros(())
    reach = sides(bins).transpose(1, 2) * strides[:, None]
    quality, positives = torch.zeros_like(logits), 0
    for row in range(len(logits)):
        cell, target = _assigned(batch.boxes[row], where, strides)
        if not len(cell):
            continue
        wanted = batch.boxes[row][target]
        near, far = reach[row, cell, :2], reach[row, cell, 2:]
        found = torch.cat([where[cell] - near, where[cell] + far], 1)
        iou, general = overlap(found, wanted)
        quality[row, batch.kinds[row][target], cell] = iou.detach()
        spans = torch.cat([where[cell] - wanted[:, :2], wanted[:, 2:] - where[cell]], 1)
        total = (
            total
            + 2 * (1 - general).sum()
            + 0.5
            * _spread(
                bins[row, :, cell].T.reshape(-1, 4, BINS), spans / strides[cell, None]
            )
        )
        positives += len(cell)
    share = logits.sigmoid()
    weight = (quality - share.detach()).abs() ** 2
    cross = F.binary_cross_entropy_with_logits(logits, quality, reduction="none")
    return (total + (weight * cross).sum() * 2) / max(positives, 1)


def _assigned(boxes: Tensor, where: Tensor, strides: Tensor) -> tuple[Tensor, Tensor]:
    """Cells in the middle of a box on the level of its size, and whose box it is."""
    if not len(boxes):
        return torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    size = boxes[:, 2:] - boxes[:, :2]
    longest = size.max(1).values
    low = torch.tensor([_REACH[STRIDES.index(int(s))] for s in strides])
    high = torch.tensor([_REACH[STRIDES.index(int(s)) + 1] for s in strides])
    away = (where[None] - middle[:, None]).abs()
    radius = torch.minimum(1.0 * strides[None, :, None], size[:, None] / 2)
    inside = (away < torch.maximum(radius, 0.5 * strides[None, :, None])).all(-1)
    fits = inside & (longest[:, None] > low) & (longest[:, None] <= high)
    # Of two boxes that want a cell the smaller one gets it.
    area = torch.where(fits, size.prod(1)[:, None], torch.inf)
    least, owner = area.min(0)
    cell = torch.isfinite(least).nonzero().flatten()
    return cell, owner[cell]


def _spread(logits: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy of the two bins next to the wanted distance."""
    wanted = wanted.clamp(0, BINS - 1.01)
    left = wanted.long()
    share = (left + 1 - wanted).flatten()
    flat = logits.reshape(-1, BINS)
    below = F.cross_entropy(flat, left.flatten(), reduction="none")
    above = F.cross_entropy(flat, left.flatten() + 1, reduction="none")
    return (below * share + above * (1 - share)).sum() / 4


def anchored_loss(out: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    """Softmax with hard negatives and smooth L1 of offsets (SSD, Liu et al., 2016)."""
    logits, offsets = out
    rows = anchors(HEIGHT, WIDTH)
    corners = torch.cat(
        [rows[:, :2] - rows[:, 2:] / 2, rows[:, :2] + rows[:, 2:] / 2], 1
    )
    kinds = torch.zeros(logits.shape[:2], dtype=torch.long)
    place, positives = logits.new_zeros(()), 0
    for row, boxes in enumerate(batch.boxes):
        if not len(boxes):
            continue
        iou, _ = overlap(corners[:, None], boxes[None])
        best, owner = iou.max(1)
        # Each object has at least the anchor that fits it best.
        forced = iou.max(0).indices
        best[forced], owner[forced] = 1.0, torch.arange(len(boxes))
        chosen = (best >= 0.45).nonzero().flatten()
        kinds[row, chosen] = 1 + batch.kinds[row][owner[chosen]]
        wanted = boxes[owner[chosen]]
        middle, size = (
            (wanted[:, :2] + wanted[:, 2:]) / 2,
            wanted[:, 2:] - wanted[:, :2],
        )
        at = rows[chosen]
        target = torch.cat(
            [(middle - at[:, :2]) / at[:, 2:], (size / at[:, 2:]).log()], 1
        )
        target = target / torch.tensor(VARIANCES)
        place = place + F.smooth_l1_loss(offsets[row, chosen], target, reduction="sum")
        positives += len(chosen)
    cross = F.cross_entropy(
        logits.reshape(-1, 1 + CLASSES), kinds.flatten(), reduction="none"
    )
    on = kinds.flatten() > 0
    hard = cross[~on].topk(min(_NEGATIVES * max(positives, 1), int((~on).sum()))).values
    return (place + cross[on].sum() + hard.sum()) / max(positives, 1)


def peaks_loss(out: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    """Focal loss of Gaussian peaks (CenterNet, Zhou et al., 2019) and GIoU."""
    logits, distances = out
    where = centres(HEIGHT, WIDTH, (STRIDES[0],))[0]
    b, _, h, w = logits.shape
    heat = torch.zeros(b, CLASSES, h * w)
    total, positives = logits.new_zeros(()), 0
    for row, boxes in enumerate(batch.boxes):
        if not len(boxes):
            continue
        middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
        spread = (0.22 * size).clamp(3.0)
        away = (where[None] - middle[:, None]) / spread[:, None]
        bell = torch.exp(-(away**2).sum(-1) / 2)
        column = (middle[:, 0] / STRIDES[0]).long().clamp(0, w - 1)
        line = (middle[:, 1] / STRIDES[0]).long().clamp(0, h - 1)
        bell[torch.arange(len(boxes)), line * w + column] = 1.0
        for kind, one in zip(batch.kinds[row], bell, strict=True):
            heat[row, kind] = torch.maximum(heat[row, kind], one)
        strongest, owner = bell.max(0)
        cell = (strongest > 0.45).nonzero().flatten()
        d = distances[row].flatten(1).T[cell]
        found = torch.cat([where[cell] - d[:, :2], where[cell] + d[:, 2:]], 1)
        _, general = overlap(found, boxes[owner[cell]])
        total = total + 2 * (1 - general).sum()
        positives += len(cell)
    share = logits.flatten(2).sigmoid().clamp(1e-4, 1 - 1e-4)
    on = heat == 1
    loss = torch.where(
        on,
        -((1 - share) ** 2) * share.log(),
        -((1 - heat) ** 4) * share**2 * (1 - share).log(),
    )
    return total / max(positives, 1) + loss.sum() / max(int(on.sum()), 1)
