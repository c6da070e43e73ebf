"""Memory, descriptors and threads over a long run: do they grow?

A recording is played over and over by several sources at once, as fast as it goes,
through decoding, the network and the tracker. Resident memory is sampled each 1000
frames of a source; a line is fitted from frame 2000 on.

    python benchmarks/live_memory.py CLIP [--frames 20000] [--sources 4]
"""

import argparse
import json
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live.memory import MIB, Slope, resident_bytes, slope

from edgepipe import Pipeline

SETTLED_FRAMES = 2000
EACH_FRAMES = 1000


@dataclass
class Held:
    """What the process held, each time it was looked at."""

    frames: list[int] = field(default_factory=list[int])
    """Delivered so far, by each source on average."""
    memory_bytes: list[int] = field(default_factory=list[int])
    descriptors: list[int] = field(default_factory=list[int])
    threads: list[int] = field(default_factory=list[int])

    def look(self, frames: int) -> None:
        """Note what is held now."""
        self.frames.append(frames)
        self.memory_bytes.append(resident_bytes())
        self.descriptors.append(len(os.listdir("/proc/self/fd")))
        self.threads.append(threading.active_count())

    @property
    def grown_bytes(self) -> float:
        """Growth of the memory from the first look to the last, by a fitted line."""
        per_frame = self.per_frame.slope * MIB / 60
        return per_frame * (self.frames[-1] - self.frames[0])

    @property
    def per_frame(self) -> Slope:
        """The line's slope, of 60 frames."""
        return slope([float(n) for n in self.frames], self.memory_bytes)


def config_of(clip: Path, sources: int) -> dict[str, Any]:
    """Streams that play the clip for ever, each frame of it."""
    return {
        "version": 1,
        "streams": [
            {
                "id": f"clip-{number}",
                "source": {"uri": str(clip), "pace": "fast", "loop": True},
                "deadline": "10s",
                "queue": {"overflow": "block"},
            }
            for number in range(sources)
        ],
        "model": {"path": "scene-tiny"},
    }


def play(clip: Path, sources: int, frames: int, settled: int, each: int) -> Held:
    """Play ``frames`` of each source, look each so many from ``settled`` on."""
    held, delivered = Held(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.yaml"
        path.write_text(json.dumps(config_of(clip, sources)))
        with Pipeline.from_config(str(path), folder=Path(folder)) as pipeline:
            for _ in pipeline:
                delivered += 1
                done, rest = divmod(delivered, sources)
                if rest == 0 and done >= settled and done % each == 0:
                    held.look(done)
                if done >= frames:
                    break
    return held


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clip", type=Path)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--sources", type=int, default=4)
    args = parser.parse_args()
    begun_s = time.monotonic()
    held = play(args.clip, args.sources, args.frames, SETTLED_FRAMES, EACH_FRAMES)
    took_s = time.monotonic() - begun_s
    sizes = [size / MIB for size in held.memory_bytes]
    print(f"{args.sources} sources x {args.frames} frames in {took_s:.0f} s")
    print(f"memory {sizes[0]:.1f} to {sizes[-1]:.1f} MiB, at most {max(sizes):.1f}; ")
    print(f"grown by {held.grown_bytes / MIB:+.2f} MiB by a fitted line")
    print(
        f"descriptors {sorted({*held.descriptors})}, threads {sorted({*held.threads})}"
    )


if __name__ == "__main__":
    main()
