"""Three small detectors in PyTorch, each with another family's head.

They learn the walkers, carts and drones of the drawn scenes in minutes on one core.
What they are exported as is what users bring: see ``export`` of each.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code has
from torch import Tensor, nn

CLASSES = 3
STRIDES = (8, 16, 32)
BINS = 8
"""Values of a side's distance in the first network, in cells."""
KEPT = 100
"""Rows that the last network puts out."""
RATIOS = (0.45, 1.0, 1.9)
"""Width by height of the second network's anchors."""
ANCHOR_SIDE = 3.0
"""Square root of an anchor's area, in strides."""


def conv(inside: int, out: int, kernel: int, stride: int, act: nn.Module) -> nn.Module:
    """A convolution, normalised and activated."""
    return nn.Sequential(
        nn.Conv2d(inside, out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(out),
        act,
    )


def depthwise(inside: int, out: int, stride: int) -> nn.Module:
    """A convolution of each channel, then one across them (MobileNet)."""
    return nn.Sequential(
        nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False),
        nn.BatchNorm2d(inside),
        nn.ReLU6(),
        nn.Conv2d(inside, out, 1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU6(),
    )


def centres(height: int, width: int, strides: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Cell centres (n, 2) in pixels and strides (n,), the finest level first."""
    where, each = [], []
    for stride in strides:
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        where.append((torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)
        each.append(torch.full((rows * columns,), float(stride)))
    return torch.cat(where), torch.cat(each)


class Split(nn.Module):
    """Half of the channels through a residual block, all of them joined (C2f)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.first = conv(channels, channels, 1, 1, nn.SiLU())
        self.inner = nn.Sequential(
            conv(half, half, 3, 1, nn.SiLU()), conv(half, half, 3, 1, nn.SiLU())
        )
        self.last = conv(3 * half, channels, 1, 1, nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w), the same out."""
        a, b = self.first(x).chunk(2, 1)
        return self.last(torch.cat([a, b, b + self.inner(b)], 1))


class AnchorFree(nn.Module):
    """Distances as distributions and a sigmoid for each class, like YOLOv8."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.SiLU
        self.stem = nn.Sequential(conv(3, 12, 3, 2, act()), conv(12, 24, 3, 2, act()))
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b, 3, 2, act()), Split(b))
            for a, b in ((24, 40), (40, 64), (64, 64))
        )
        self.side = nn.ModuleList(conv(c, 40, 1, 1, act()) for c in (40, 64, 64))
        self.smooth = nn.ModuleList(conv(40, 40, 3, 1, act()) for _ in STRIDES)
        self.box = nn.ModuleList(nn.Conv2d(40, 4 * BINS, 1) for _ in STRIDES)
        self.score = nn.ModuleList(nn.Conv2d(40, CLASSES, 1) for _ in STRIDES)
        for layer in self.score:
            nn.init.constant_(layer.bias, -4.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, classes, n) and bins (b, 4 * BINS, n)."""
        y, levels = self.stem(x), []
        for down in self.down:
            y = down(y)
            levels.append(y)
        above, feats = None, []
        for side, y in zip(reversed(self.side), reversed(levels), strict=True):
            z = side(y)
            if above is not None:
                z = z + F.interpolate(above, scale_factor=2.0, mode="nearest")
            above = z
            feats.insert(0, z)
        feats = [f(z) for f, z in zip(self.smooth, feats, strict=True)]
        score = [
            layer(z).flatten(2) for layer, z in zip(self.score, feats, strict=True)
        ]
        box = [layer(z).flatten(2) for layer, z in zip(self.box, feats, strict=True)]
        return torch.cat(score, 2), torch.cat(box, 2)


def sides(bins: Tensor) -> Tensor:
    """(b, 4, n) expected distances in cells from (b, 4 * BINS, n)."""
    b, _, n = bins.shape
    shares = bins.view(b, 4, BINS, n).softmax(2)
    counts = torch.arange(BINS, dtype=bins.dtype).view(1, 1, BINS, 1)
    return (shares * counts).sum(2)


class AnchorFreeExport(nn.Module):
    """(1, 4 + classes, n): cx, cy, w, h in pixels, then probabilities."""

    def __init__(self, net: AnchorFree, height: int, width: int) -> None:
        super().__init__()
        self.net = net
        where, strides = centres(height, width, STRIDES)
        self.register_buffer("where", (where / strides[:, None]).T[None])
        self.register_buffer("strides", strides[None, None])
        # The mean of a distribution as a convolution, as YOLOv8 has it.
        self.mean = nn.Conv2d(BINS, 1, 1, bias=False)
        self.mean.weight.data = torch.arange(BINS, dtype=torch.float32).view(
            1, -1, 1, 1
        )

    def forward(self, x: Tensor) -> Tensor:
        """Of images (1, 3, h, w) in RGB from 0 to 1."""
        score, bins = self.net(x)
        b, _, n = bins.shape
        y = bins.view(b, 4, BINS, n).transpose(2, 1).softmax(1)
        near, far = self.mean(y).view(b, 4, n).chunk(2, 1)
        low, high = self.where - near, self.where + far
        boxes = torch.cat([(low + high) / 2, high - low], 1) * self.strides
        return torch.cat([boxes, score.sigmoid()], 1)


class Anchored(nn.Module):
    """Offsets to three anchors a cell and a softmax with a background, like SSD."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv(3, 16, 3, 2, nn.ReLU6()), depthwise(16, 32, 2), depthwise(32, 48, 1)
        )
        self.down = nn.ModuleList(
            nn.Sequential(depthwise(a, b, 2), depthwise(b, b, 1), depthwise(b, b, 1))
            for a, b in ((48, 96), (96, 128), (128, 128))
        )
        widths, each = (96, 128, 128), len(RATIOS)
        self.score = nn.ModuleList(
            nn.Conv2d(c, each * (1 + CLASSES), 3, padding=1) for c in widths
        )
        self.box = nn.ModuleList(nn.Conv2d(c, each * 4, 3, padding=1) for c in widths)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, n, 1 + classes), the background first, and offsets (b, n, 4)."""
        y, scores, boxes = self.stem(x), [], []
        for down, score, box in zip(self.down, self.score, self.box, strict=True):
            y = down(y)
            scores.append(_rows(score(y), 1 + CLASSES))
            boxes.append(_rows(box(y), 4))
        return torch.cat(scores, 1), torch.cat(boxes, 1)


def _rows(y: Tensor, columns: int) -> Tensor:
    """(b, anchors * columns, h, w) as (b, h * w * anchors, columns)."""
    return y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, columns)


def anchors(height: int, width: int) -> Tensor:
    """(n, 4): cx, cy, w, h in pixels."""
    where, strides = centres(height, width, STRIDES)
    ratios = torch.tensor(RATIOS).sqrt()
    side = ANCHOR_SIDE * strides[:, None]
    size = torch.stack([side * ratios, side / ratios], -1)
    spots = where[:, None].expand(-1, len(RATIOS), -1)
    return torch.cat([spots, size], -1).reshape(-1, 4)


class AnchoredExport(nn.Module):
    """``scores`` (1, n, 1 + classes), shares, and ``offsets`` (1, n, 4), raw."""

    def __init__(self, net: Anchored) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of images (1, 3, h, w) in RGB from -1 to 1."""
        score, boxes = self.net(x)
        return score.softmax(-1), boxes


class Peaks(nn.Module):
    """A heat map whose peaks are objects, like CenterNet: no NMS is needed."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.ReLU
        self.s4 = nn.Sequential(conv(3, 12, 3, 2, act()), conv(12, 24, 3, 2, act()))
        self.s8 = nn.Sequential(conv(24, 48, 3, 2, act()), conv(48, 48, 3, 1, act()))
        self.s16 = nn.Sequential(conv(48, 72, 3, 2, act()), conv(72, 72, 3, 1, act()))
        self.s32 = nn.Sequential(conv(72, 72, 3, 2, act()), conv(72, 72, 3, 1, act()))
        self.up16, self.up8 = conv(72, 72, 1, 1, act()), conv(72, 48, 1, 1, act())
        self.top = nn.Sequential(conv(48, 48, 3, 1, act()), conv(48, 48, 3, 1, act()))
        self.score, self.box = nn.Conv2d(48, CLASSES, 1), nn.Conv2d(48, 4, 1)
        nn.init.constant_(self.score.bias, -4.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, classes, h, w) and distances (b, 4, h, w) in pixels, stride 8."""
        a = self.s8(self.s4(x))
        b = self.s16(a)
        c = self.up16(self.s32(b))
        b = b + F.interpolate(c, scale_factor=2.0, mode="nearest")
        y = self.top(a + F.interpolate(self.up8(b), scale_factor=2.0, mode="nearest"))
        return self.score(y), F.softplus(self.box(y)) * STRIDES[0]


class PeaksExport(nn.Module):
    """(1, KEPT, 6): x1, y1, x2, y2 in pixels, score, class; the likeliest first."""

    def __init__(self, net: Peaks, height: int, width: int) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("where", centres(height, width, (STRIDES[0],))[0][None])

    def forward(self, x: Tensor) -> Tensor:
        """Of images (1, 3, h, w) in BGR, from which the mean has been taken."""
        score, distances = self.net(x)
        heat = score.sigmoid()
        peak = F.max_pool2d(heat, 3, 1, 1) == heat
        flat = (heat * peak.float()).flatten(1)
        best, index = flat.topk(KEPT, 1)
        cells = self.where.shape[1]
        kind, cell = index // cells, index % cells
        d = distances.flatten(2).transpose(1, 2)
        boxes = torch.cat([self.where - d[..., :2], self.where + d[..., 2:]], -1)
        boxes = boxes.gather(1, cell[..., None].expand(-1, -1, 4))
        return torch.cat([boxes, best[..., None], kind[..., None].float()], -1)
