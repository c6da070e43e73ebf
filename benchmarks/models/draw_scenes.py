"""Draws many scenes as a folder of images, with labels in YOLO's form.

    python benchmarks/models/draw_scenes.py OUT --scenes 400 --first-seed 900000

``OUT/images/000000.png`` and so on, one image of each scene, and ``OUT/labels`` with a
text file for each. Another first seed gives scenes that no network was trained on.
"""

import argparse
from pathlib import Path

import cv2

from edgepipe.stages.sources.scene import CLASS_NAMES, Scene

HEIGHT, WIDTH = 192, 320
MOST_OBJECTS = 8


def write(folder: Path, number: int, seed: int) -> None:
    """One image and its labels."""
    scene = Scene(seed, WIDTH, HEIGHT, 1 + seed % MOST_OBJECTS)
    index = seed % 97
    truth = scene.truth(index)
    cv2.imwrite(str(folder / "images" / f"{number:06}.png"), scene.image(index))
    lines: list[str] = []
    for kind, (x1, y1, x2, y2) in zip(truth.class_id, truth.xyxy, strict=True):
        middle = (x1 + x2) / 2 / WIDTH, (y1 + y2) / 2 / HEIGHT
        size = (x2 - x1) / WIDTH, (y2 - y1) / HEIGHT
        values = " ".join(f"{value:.6f}" for value in (*middle, *size))
        lines.append(f"{kind} {values}\n")
    (folder / "labels" / f"{number:06}.txt").write_text("".join(lines))


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=900_000)
    args = parser.parse_args()
    for part in ("images", "labels"):
        (args.folder / part).mkdir(parents=True, exist_ok=True)
    (args.folder / "labels" / "classes.txt").write_text("\n".join(CLASS_NAMES) + "\n")
    for number in range(args.scenes):
        write(args.folder, number, args.first_seed + number)
    print(args.folder)


if __name__ == "__main__":
    main()
