"""The ladder in a running pipeline: real networks and threads, and a manual clock.

One frame is in flight at a time and inference takes the time that the test says, so
every decision falls at a known frame.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from onnx import ModelProto

from edgepipe.assemble import Pipeline
from edgepipe.configs import load
from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.pipeline.frame import Frame
from edgepipe.stages.infer import Infer
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord

MS = 1_000_000
FULL_MS, SMALL_MS = 10, 3
SERIAL = (
    "streams[0].source.uri=synthetic:?frames={frames}&fps=25",
    "streams[0].queue={{capacity: 1, overflow: block}}",
    "scheduler.max_in_flight=1",
    "scheduler.resources.cpu=1",
)


def small_card(folder: Path, **changes: object) -> Path:
    """A card of scene-tiny with another input, beside files that are free in size."""
    shipped = zoo.card_path("scene-tiny")
    card = yaml.safe_load(shipped.read_text())
    card["input"] |= changes
    for file in card["files"]:
        del file["sha256"]
        model = ModelProto()
        model.ParseFromString(shipped.with_name(file["path"]).read_bytes())
        for tensor in (*model.graph.input, *model.graph.output):
            for number, size in enumerate(tensor.type.tensor_type.shape.dim):
                size.dim_param = f"{tensor.name}{number}"
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
        (folder / file["path"]).write_bytes(model.SerializeToString())
    path = folder / "small.yaml"
    path.write_text(json.dumps(card))  # which is YAML, too
    return path


class Throttled:
    """A sink that changes the processor's clock when certain frames are delivered."""

    name = "throttle"

    def __init__(self, at: dict[int, int]) -> None:
        self.permille = 1000
        self.pipeline: Pipeline | None = None
        self._at = at

    def write(self, frame: Frame, now_ns: int) -> None:
        if self.pipeline is not None and frame.sequence in self._at:
            self.permille = self._at[frame.sequence]
            self.pipeline.runtime.clock_changed("cpu", self.permille)

    def close(self) -> None:
        pass


def play(
    folder: Path,
    ladder: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    frames: int,
    throttle: dict[int, int],
    sinks: str = "[]",
) -> tuple[list[FrameRecord], Pipeline]:
    """Run a scene to its end; return its records, by sequence, and the pipeline."""
    clock, throttled = ManualClock(10**12), Throttled(throttle)
    records: list[FrameRecord] = []
    process = Infer.process

    def timed(self: Infer, frame: Frame, worker: int) -> Frame:
        cost_ms = SMALL_MS if "small" in frame.rung else FULL_MS
        clock.advance(cost_ms * MS * 1000 // throttled.permille)
        return process(self, frame, worker)

    monkeypatch.setattr(Infer, "process", timed)
    card = small_card(folder, height=96, width=160)
    changes = [
        *(text.format(frames=frames) for text in SERIAL),
        "streams[0].deadline=200ms",
        f"scheduler.ladder={ladder}",
        f"sinks={sinks}",
    ]
    if "variant" in ladder:
        changes.append(f"model.variants=[{{name: small, card: '{card}'}}]")
        # Judged at its full size, not at this one.
        changes.append("model.gate=warn")
    config = load.read("synthetic", changes).config
    with Pipeline(config, folder, records.append, clock, [throttled]) as pipeline:
        throttled.pipeline = pipeline
        pipeline.runtime.start()
        assert pipeline.runtime.wait(60)
        assert pipeline.runtime.balanced
    return sorted(records, key=lambda record: record.sequence), pipeline


def test_the_first_frame_after_a_clock_drop_is_worked_on_by_the_small_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, pipeline = play(
        tmp_path, "[{variant: small}]", monkeypatch, frames=40, throttle={20: 200}
    )
    variants = [record.variant for record in records]
    assert variants == ["full"] * 21 + ["small"] * 19
    assert {record.fate for record in records} == {"completed"}
    (move,) = pipeline.runtime.rung_moves
    assert (move.stream, move.rung, move.cause) == ("synthetic", 1, "clock")
    assert move.at_ns <= records[21].capture_ns


def test_quality_comes_back_with_the_clock_and_no_frame_is_lost_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, pipeline = play(
        tmp_path,
        "[{variant: small}]",
        monkeypatch,
        frames=120,
        throttle={20: 200, 60: 1000},
    )
    assert Counter(record.fate for record in records) == {"completed": 120}
    assert records[59].variant == "small"
    assert records[-1].variant == "full"
    assert [move.cause for move in pipeline.runtime.rung_moves] == ["clock", "probe"]
    rings = {network.ring for network in pipeline.networks.by_variant.values()}
    assert len(rings) == 2
    assert [ring.statistics().lent for ring in rings] == [0, 0]


def test_on_the_lowest_rung_every_other_frame_is_left_to_the_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, _ = play(
        tmp_path,
        "[{track_only: 2}]",
        monkeypatch,
        frames=30,
        throttle={19: 200},
        sinks="[{kind: jsonl, path: out.jsonl}]",
    )
    assert [record.variant for record in records[20:24]] == [
        "track-only 2",
        "track_only",
        "track-only 2",
        "track_only",
    ]
    assert {record.fate for record in records} == {"completed"}
    lines = [
        json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    seen, expected = lines[20:22]
    assert (seen["inferred"], seen["detection_age_ms"]) == (True, 0)
    assert (expected["inferred"], expected["detection_age_ms"]) == (False, 40)
    assert len(expected["objects"]) == len(seen["objects"]) > 0
    assert "infer" not in [span.stage for span in records[21].spans]


def test_frames_that_a_stride_leaves_out_are_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, _ = play(
        tmp_path, "[{stride: 2}]", monkeypatch, frames=30, throttle={19: 200}
    )
    reasons = Counter(record.reason for record in records if record.reason)
    assert reasons == {"stride": 5}


def test_a_variant_that_names_other_classes_is_refused(tmp_path: Path) -> None:
    changes = [
        "model.variants=[{name: small, path: nanodet-g}]",
        "scheduler.ladder=[{variant: small}]",
    ]
    config = load.read("synthetic", changes).config
    with pytest.raises(ModelError, match="'small': model 'nanodet-g' names other cl"):
        Pipeline(config, tmp_path)
