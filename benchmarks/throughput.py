"""End-to-end throughput of one stream, beside the loops that people write instead.

One run, every variant in a process of its own, in rounds of alternating order; each
round gives one figure per variant, and ratios are taken inside a round.

    python benchmarks/throughput.py --clip CLIP --out FOLDER [--rounds 5] [--seconds 8]

Variants, for each model (YOLOv8n-shaped INT8 at 640 with ReLU and with SiLU, the same
at 320 with ReLU, and NanoDet-g):

* ``loop-ort``      cv2.VideoCapture.read -> letterbox -> blobFromImage -> onnxruntime
                    INT8 with its default threads -> NMS, one after the other
* ``loop-ort-1t``   the same with one onnxruntime thread, which is faster on some models
* ``loop-openvino`` the same loop with OpenVINO and its default settings
* ``gst-openvino``  GStreamer decodes, scales and converts in threads of its own and
                    hands frames to the same engine through appsink (320 and NanoDet-g;
                    needs Debian's python3-gi, gir1.2-gst-plugins-base-1.0,
                    gstreamer1.0-libav and gstreamer1.0-plugins-good)
* ``edgepipe``      ``edgepipe bench`` with full queues, two CPU slots, tracking on

The targets are 2.5 x the faster of the two onnxruntime loops on the 640 ReLU model, and
0.95 x the bottleneck bound that follows from the stage times of the same run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
MODELS = {
    "yolov8n-relu-640": ("relu", 640),
    "yolov8n-silu-640": ("silu", 640),
    "yolov8n-relu-320": ("relu", 320),
}
LOOPS = ("loop-ort", "loop-ort-1t", "loop-openvino")
PLACES = ("edgepipe", *LOOPS, "gst-openvino")

Image = NDArray[np.uint8]
Infer = Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]


# --- the loops that people write ---------------------------------------------------


def letterbox(image: Image, height: int, width: int) -> Image:
    """Scale into the middle of a grey image of the network's size."""
    import cv2

    gain = min(height / image.shape[0], width / image.shape[1])
    h, w = round(image.shape[0] * gain), round(image.shape[1] * gain)
    top, left = (height - h) // 2, (width - w) // 2
    return np.asarray(
        cv2.copyMakeBorder(
            cv2.resize(image, (w, h)),
            top,
            height - h - top,
            left,
            width - w - left,
            cv2.BORDER_CONSTANT,
            value=(114, 114, 114),
        ),
        np.uint8,
    )


def yolo_boxes(output: NDArray[np.float32], score: float, iou: float) -> int:
    """The usual decoder of a (1, 84, n) head with OpenCV's NMS; how many are left."""
    import cv2

    rows = output[0].T
    scores = rows[:, 4:].max(axis=1)
    keep = scores > score
    rows, scores = rows[keep], scores[keep]
    classes = rows[:, 4:].argmax(axis=1)
    corner = rows[:, :2] - rows[:, 2:4] / 2
    boxes = np.concatenate([corner, rows[:, 2:4]], axis=1)
    if not len(boxes):
        return 0
    return len(
        cv2.dnn.NMSBoxesBatched(
            boxes.tolist(), scores.tolist(), classes.tolist(), score, iou
        )
    )


def nanodet_boxes(
    outputs: list[NDArray[np.float32]], score: float, iou: float, size: tuple[int, int]
) -> int:
    """The usual decoder of NanoDet's head with OpenCV's NMS; how many are left."""
    import cv2

    scores, dist = outputs[0][0], outputs[1][0]
    height, width = size
    centers = np.concatenate(
        [
            np.stack(
                np.meshgrid(np.arange(width // s) + 0.5, np.arange(height // s) + 0.5),
                axis=-1,
            ).reshape(-1, 2)
            * s
            for s in (8, 16, 32)
        ]
    )
    strides = np.concatenate(
        [np.full((height // s) * (width // s), s) for s in (8, 16, 32)]
    )
    best = scores.max(axis=1)
    keep = best > score
    if not keep.any():
        return 0
    sides = np.exp(dist[keep].reshape(-1, 4, 11))
    sides = (sides / sides.sum(axis=2, keepdims=True)) @ np.arange(11)
    sides = sides * strides[keep][:, None]
    xy = centers[keep] - sides[:, :2]
    boxes = np.concatenate([xy, sides[:, :2] + sides[:, 2:]], axis=1)
    classes = scores[keep].argmax(axis=1)
    return len(
        cv2.dnn.NMSBoxesBatched(
            boxes.tolist(), best[keep].tolist(), classes.tolist(), score, iou
        )
    )


def ort_infer(path: Path, threads: int) -> Infer:
    """An onnxruntime session; 0 threads is its default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    return lambda blob: session.run(None, {name: blob})  # type: ignore[return-value]


def openvino_infer(path: Path, size: tuple[int, int]) -> Infer:
    """OpenVINO as a newcomer uses it: compile, call, read."""
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape([1, 3, *size])
    compiled = core.compile_model(model, "CPU")
    return lambda blob: [np.asarray(v) for v in compiled(blob).values()]


def captured(clip: Path) -> Iterator[Image]:
    """The clip's frames through OpenCV, again and again."""
    import cv2

    while True:
        capture = cv2.VideoCapture(str(clip))
        while True:
            ok, image = capture.read()
            if not ok:
                break
            yield np.asarray(image, np.uint8)


def from_gstreamer(clip: Path, size: tuple[int, int], order: str) -> Iterator[Image]:
    """The clip's frames, scaled and converted by GStreamer, again and again."""
    # Debian's binding, last on the path: it fits any environment of the same Python.
    sys.path.append("/usr/lib/python3/dist-packages")
    import gi  # type: ignore[import-not-found]

    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp  # type: ignore[import-not-found]

    del GstApp
    Gst.init(None)
    height, width = size
    while True:
        pipeline = Gst.parse_launch(
            f'filesrc location="{clip}" ! decodebin ! queue max-size-buffers=4 ! '
            f"videoscale add-borders=true ! videoconvert ! "
            f"video/x-raw,format={order},width={width},height={height},"
            f"pixel-aspect-ratio=1/1 ! "
            f"appsink name=sink sync=false max-buffers=4 drop=false"
        )
        sink = pipeline.get_by_name("sink")
        pipeline.set_state(Gst.State.PLAYING)
        while (sample := sink.emit("pull-sample")) is not None:
            buffer = sample.get_buffer()
            ok, mapped = buffer.map(Gst.MapFlags.READ)
            assert ok
            yield np.frombuffer(mapped.data, np.uint8).reshape(height, width, 3)
            buffer.unmap(mapped)
        pipeline.set_state(Gst.State.NULL)


def loop(variant: str, card: dict[str, Any], clip: Path, seconds: float) -> float:
    """Run one of the plain loops; return frames per second after a warm-up."""
    import cv2

    head, spec = card["head"]["kind"], card["input"]
    size = (spec["height"], spec["width"])
    swap = spec["color"] == "rgb"
    path = Path(card["int8"])
    infer = (
        ort_infer(path, 1 if variant.endswith("1t") else 0)
        if "ort" in variant
        else openvino_infer(path, size)
    )
    images = (
        from_gstreamer(clip, size, "RGB" if swap else "BGR")
        if variant.startswith("gst")
        else (letterbox(image, *size) for image in captured(clip))
    )
    mean, std = np.array(spec["mean"]), np.array(spec["std"])
    swap_here = swap and not variant.startswith("gst")
    started, count = 0.0, 0
    for number, image in enumerate(images):
        if head == "yolov8":
            blob = cv2.dnn.blobFromImage(image, 1 / 255, swapRB=swap_here)
            yolo_boxes(infer(blob)[0], card["score_threshold"], card["iou_threshold"])
        else:
            scaled = ((image - mean) / std).astype(np.float32)
            blob = np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])
            thresholds = card["score_threshold"], card["iou_threshold"]
            nanodet_boxes(infer(blob), *thresholds, size)
        if number == 20:
            started = time.perf_counter()
        count = number - 20
        if count > 0 and time.perf_counter() - started > seconds:
            break
    return count / (time.perf_counter() - started)


# --- edgepipe ----------------------------------------------------------------------


def edgepipe(
    model: str, card: str | None, clip: Path, seconds: float
) -> dict[str, float]:
    """``edgepipe bench`` with full queues; its rate and its own bottleneck bound."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "edgepipe", "bench", "-c", "throughput"]
        command += ["--duration", f"{seconds:g}s", "--json"]
        for setting in (
            f"telemetry.dir={folder}",
            f"streams[0].source.uri={json.dumps(str(clip))}",
            f"model.path={json.dumps(model)}",
            "model.gate=warn",  # time is measured, also of random weights
            *([f"model.card={json.dumps(card)}"] if card else []),
        ):
            command += ["--set", setting]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):
            raise SystemExit(run.stderr)
        summary = json.loads(run.stdout)
    stages, (stream,) = summary["stages"], summary["streams"].values()
    mean_s = {name: s["service_ms"]["mean"] / 1e3 for name, s in stages.items()}
    slots = summary["resources"]["cpu"]["slots"]
    # Decoding and tracking are serial in a stream; the slowest of them bounds it too.
    bound = min(
        slots / sum(mean_s.values()), 1 / max(mean_s["decode"], mean_s["track"])
    )
    fps = float(stream["fps_out"])
    return {"fps": fps, "bound": bound, "share": fps / bound}


# --- the run -----------------------------------------------------------------------


def prepare(out: Path, clip: Path) -> dict[str, tuple[str, str | None, Path]]:
    """Make the models that are missing: name to (model, card, card for the loops)."""
    import yaml

    from edgepipe.models import zoo

    prepared: dict[str, tuple[str, str | None, Path]] = {}
    for name, (activation, size) in MODELS.items():
        folder = out / name
        if not list(folder.glob("*.yaml")):
            script = HERE / "models" / "make_yolov8_shaped.py"
            options = ["--size", str(size), "--activation", activation]
            subprocess.run(
                [sys.executable, script, folder, *options, "--clip", clip],
                check=True,
                stdout=sys.stderr,
            )
        (card,) = folder.glob("*.yaml")
        prepared[name] = (str(card.with_suffix(".onnx")), None, card)
    prepared["nanodet-g"] = ("nanodet-g", None, zoo.card_path("nanodet-g"))
    for name, (_, _, card) in prepared.items():
        data = yaml.safe_load(card.read_text())
        (file,) = [f for f in data["files"] if f["precision"] == "int8"]
        data["int8"] = str(card.parent / file["path"])
        (out / f"{name}.json").write_text(json.dumps(data))
    return prepared


def variants_of(name: str) -> list[str]:
    """Which variants are run for a model."""
    if name in ("yolov8n-relu-320", "nanodet-g"):
        return list(PLACES)
    return [place for place in PLACES if not place.startswith("gst")]


def measure(
    variant: str,
    name: str,
    model: tuple[str, str | None, Path],
    args: argparse.Namespace,
) -> dict[str, float]:
    """One figure, from a process of its own."""
    if variant == "edgepipe":
        return edgepipe(model[0], model[1], args.clip, args.seconds)
    command = [sys.executable, __file__, "--clip", args.clip, "--out", args.out]
    command += ["--seconds", str(args.seconds), "--only", f"{variant},{name}"]
    run = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if run.returncode:
        return {"error": 1.0} if variant.startswith("gst") else sys.exit(run.stderr)
    return {"fps": float(run.stdout)}


def spread(values: list[float]) -> dict[str, float]:
    """Median and range, rounded for people."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def main() -> None:
    """Measure everything and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clip", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        variant, name = args.only.split(",")
        card = json.loads((args.out / f"{name}.json").read_text())
        print(loop(variant, card, args.clip, args.seconds))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    prepared = prepare(args.out, args.clip)
    names = args.models or list(prepared)
    figures: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {variant: [] for variant in variants_of(name)} for name in names
    }
    for number in range(args.rounds):
        for name in names:
            order = variants_of(name)
            for variant in order if number % 2 == 0 else reversed(order):
                result = measure(variant, name, prepared[name], args)
                figures[name][variant].append(result)
                print(number, name, variant, result, file=sys.stderr, flush=True)
    print(json.dumps({n: report(rounds) for n, rounds in figures.items()}, indent=1))


def report(rounds: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Rates, and ratios taken inside each round."""
    ours = rounds["edgepipe"]
    result: dict[str, Any] = {
        "fps": {
            variant: spread([r["fps"] for r in results])
            for variant, results in rounds.items()
            if all("fps" in r for r in results)
        },
        "share_of_bound": spread([r["share"] for r in ours]),
    }
    faster = [
        max(rounds["loop-ort"][i]["fps"], rounds["loop-ort-1t"][i]["fps"])
        for i in range(len(ours))
    ]
    against = {"faster onnxruntime loop": faster}
    for variant in ("loop-openvino", "gst-openvino"):
        results = rounds.get(variant, [])
        if results and all("fps" in r for r in results):
            against[variant] = [r["fps"] for r in results]
    result["edgepipe_against"] = {
        other: spread([mine["fps"] / its for mine, its in zip(ours, fps, strict=True)])
        for other, fps in against.items()
    }
    return result


if __name__ == "__main__":
    main()
