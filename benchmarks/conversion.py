"""What a way of making the network's input costs, and whether detections change.

    python benchmarks/conversion.py cost
    python benchmarks/conversion.py agree CLIP... --precision int8 --precision fp32

``cost`` times every way on the same pictures, one after the other in alternating
order, on one thread: milliseconds per frame, median and 10th to 90th percentile.
``agree`` runs NanoDet-g as it ships behind every way and counts the detections that its
card would show and that have a counterpart (IoU >= .9, same class, score within .05)
when the input is made by ``cv2.VideoCapture`` and ``cv2.resize``, and the other way
round. The row ``noise`` changes one value in a thousand of that very input by one: no
way of conversion can be expected to do better than it, except by being equal.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.card import ColorOrder
from edgepipe.models.detector import Detector, Found
from edgepipe.models.load import load_engine
from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import Reducing
from edgepipe.stages.bands import Bands, band_rows
from edgepipe.stages.letterbox import Placement, letterbox_for
from edgepipe.stages.planes import Scratch, render
from edgepipe.stages.sources.open import open_source, sample_path
from edgepipe.stages.sources.pictures import PictureMaker
from edgepipe.stages.yuv import rgb_from_yuv

Image = NDArray[np.uint8]
Way = Callable[[Picture, Image], None]
"""Fills the second argument, (height, width, 3) BGR, with the scaled picture."""

CARD, _ = read_card(zoo.card_path("nanodet-g"))
HEIGHT, WIDTH = CARD.height, CARD.width
SIZES = ((640, 272), (768, 576), (1280, 720), (1920, 1080))
ROUNDS = 200
IOU, NEAR = 0.9, 0.05
FLOOR = CARD.score_threshold - NEAR
"""Lowest score of a counterpart."""


def planes(picture: Picture, dst: Image) -> None:
    """Scale Y, U and V, then turn the small planes into BGR."""
    render(picture, dst, ColorOrder.BGR, SCRATCH)


def planes_area(picture: Picture, dst: Image) -> None:
    """The same with a filter that averages over the source pixels."""
    size = (dst.shape[1], dst.shape[0])
    small = [cv2.resize(p, size, interpolation=cv2.INTER_AREA) for p in picture.planes]
    matrix = rgb_from_yuv(picture.matrix, picture.full_range, ColorOrder.BGR)
    cv2.transform(cv2.merge(small), matrix, dst)


def bands(picture: Picture, dst: Image) -> None:
    """As plain, but a band of rows at a time; planes where that is not possible."""
    size = (picture.width, picture.height)
    key = (*size, picture.format)
    if key not in BANDS:
        rows = band_rows(*size, len(dst))
        BANDS[key] = None if rows is None else Bands(*size, rows, picture.format)
    made = BANDS[key]
    if made is None:
        planes(picture, dst)
    else:
        made.render(picture, dst, ColorOrder.BGR)


def swscale(how: str) -> Way:
    """Let FFmpeg scale and convert in one go."""
    reformatter = VideoReformatter()

    def way(picture: Picture, dst: Image) -> None:
        height, width = dst.shape[:2]
        frame = picture.owner
        assert isinstance(frame, VideoFrame)
        small = reformatter.reformat(
            frame, width, height, "bgr24", interpolation=how, threads=1
        )
        dst[...] = PictureMaker().picture(small).planes[0]

    return way


def plain() -> Way:
    """What ``cv2.VideoCapture`` and ``cv2.resize`` do: the whole picture as BGR."""
    reformatter = VideoReformatter()

    def way(picture: Picture, dst: Image) -> None:
        frame = picture.owner
        assert isinstance(frame, VideoFrame)
        whole = reformatter.reformat(
            frame, format="bgr24", interpolation="BICUBIC", threads=1
        )
        image = PictureMaker().picture(whole).planes[0]
        cv2.resize(image, (dst.shape[1], dst.shape[0]), dst=dst)

    return way


SCRATCH = Scratch(WIDTH * HEIGHT)
BANDS: dict[tuple[int, int, PixelFormat], Bands | None] = {}
WAYS: dict[str, Way] = {
    "planes LINEAR": planes,
    "planes AREA": planes_area,
    "swscale BILINEAR": swscale("BILINEAR"),
    "swscale AREA": swscale("AREA"),
    "bands (as built)": bands,
    "plain (whole BGR)": plain(),
}


def placement(width: int, height: int) -> Placement:
    """Where a picture lies in the network's input."""
    return letterbox_for(width, height, WIDTH, HEIGHT, CARD.align)


# --- cost -----------------------------------------------------------------------------


def noisy_picture(width: int, height: int, seed: int) -> Picture:
    """A picture in memory that looks like a decoder's."""
    frame = VideoFrame(width, height, "yuv420p")
    rng = np.random.default_rng(seed)
    for plane in frame.planes:
        shape = (plane.height, plane.line_size)
        plane.update(rng.integers(16, 235, shape, dtype=np.uint8).tobytes())
    return PictureMaker().picture(frame)


def cost() -> None:
    """Print one table for each size."""
    for width, height in SIZES:
        pictures = [noisy_picture(width, height, seed) for seed in range(4)]
        place = placement(width, height)
        dst = np.empty((HEIGHT, WIDTH, 3), np.uint8)[place.rows, place.columns]
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(ROUNDS):
            names = list(WAYS) if number % 2 else list(reversed(WAYS))
            for name in names:
                begin = time.perf_counter()
                WAYS[name](pictures[number % 4], dst)
                times[name].append((time.perf_counter() - begin) * 1e3)
        print(f"{width}x{height} -> {place.width}x{place.height}, ms per frame")
        for name, values in times.items():
            low, median, high = np.percentile(values[8:], (10, 50, 90))
            print(f"  {name:18} {median:6.3f}  [{low:.3f}, {high:.3f}]")


# --- agreement ------------------------------------------------------------------------


def detector(precision: str, engine: str) -> Detector:
    """The shipped model with its card's settings, keeping scores down to the floor."""
    return Detector(
        CARD,
        load_engine(CARD, precision, engine, requests=1, threads=1),
        score=FLOOR,
        iou=CARD.iou_threshold,
        max_detections=CARD.max_detections,
        class_agnostic=CARD.class_agnostic,
    )


def pairs(
    clip: str, step: int, *, reduced: bool = False
) -> Iterator[tuple[Picture, Image]]:
    """Every ``step``-th frame, decoded by edgepipe and by cv2."""
    source = open_source(clip)
    if reduced and isinstance(source, Reducing):
        source.reduce_to(lambda width, height: placement(width, height)[1:])
    path = sample_path(clip) if clip.startswith("sample:") else Path(clip)
    capture = cv2.VideoCapture(str(path))
    while (arrival := source.next_arrival()) is not None:
        good, image = capture.read()
        if not good:
            break
        if arrival.index % step == 0:
            yield source.decode(arrival.index), np.asarray(image, np.uint8)
    source.close()


def agree(
    precision: str, engine: str, clip: str, step: int, *, reduced: bool = False
) -> None:
    """Print one table for a file of the model and a clip."""
    find = detector(precision, engine)
    rng = np.random.default_rng(0)
    ways: dict[str, Way] = {"reduced": planes} if reduced else dict(WAYS)
    hits = {name: np.zeros(4, int) for name in (*ways, "noise")}
    for picture, image in pairs(clip, step, reduced=reduced):
        place = placement(picture.width, picture.height)
        tensor = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        tensor[...] = CARD.pad_value
        inside = tensor[place.rows, place.columns]
        cv2.resize(image, (place.width, place.height), dst=inside)
        reference = find.detect(tensor[None])[0]
        plain_input = inside.astype(np.int16)
        for name in hits:
            if name == "noise":
                change = rng.choice([-1, 0, 1], inside.shape, p=[5e-4, 0.999, 5e-4])
                inside[...] = np.maximum(np.minimum(plain_input + change, 255), 0)
            else:
                ways[name](picture, inside)
            found = find.detect(tensor[None])[0]
            hits[name] += (*matched(reference, found), *matched(found, reference))
    print(f"{Path(clip).name}, {precision}, {engine}: matched of plain, plain of it")
    for name, (a, n, b, m) in hits.items():
        print(f"  {name:18} {a / max(n, 1):7.2%} of {n}   {b / max(m, 1):7.2%} of {m}")


def matched(wanted: Found, found: Found) -> tuple[int, int]:
    """How many of the strong detections have a counterpart, and how many there are."""
    strong = wanted.score >= CARD.score_threshold
    boxes, scores, classes = (
        values[strong] for values in (wanted.xyxy, wanted.score, wanted.class_id)
    )
    low = np.maximum(boxes[:, None, :2], found.xyxy[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], found.xyxy[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=2)
    area, area_found = (
        np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (boxes, found.xyxy)
    )
    iou = common / np.maximum(area[:, None] + area_found - common, 1e-9)
    fits = iou >= IOU
    fits &= np.abs(scores[:, None] - found.score) <= NEAR
    fits &= classes[:, None] == found.class_id
    return int(fits.any(axis=1).sum()), len(boxes)


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("cost", "agree"))
    parser.add_argument("clips", nargs="*", default=["sample:bikes"])
    parser.add_argument("--precision", action="append", choices=("int8", "fp32"))
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--step", type=int, default=1, help="use every n-th frame")
    parser.add_argument(
        "--reduced",
        action="store_true",
        help="JPEG video decoded no larger than needed",
    )
    args = parser.parse_args()
    cv2.setNumThreads(1)
    if args.part == "cost":
        cost()
        return
    for precision in args.precision or ("int8", "fp32"):
        for clip in args.clips:
            agree(precision, args.engine, clip, args.step, reduced=args.reduced)


if __name__ == "__main__":
    main()
