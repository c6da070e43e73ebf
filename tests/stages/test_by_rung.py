"""Stages that stand for each other, by the rung of the frame."""

from collections.abc import Sequence

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.by_rung import BatchByRung, ByRung


class Named:
    """A stage that leaves its mark, takes batches and remembers what it renewed."""

    def __init__(self, mark: str, name: str = "infer") -> None:
        self.name = name
        self.renewed: list[int] = []
        self.closed = False
        self._mark = mark

    def process(self, frame: Frame, worker: int) -> Frame:
        return frame.with_changes(variant=f"{self._mark} {worker}", batch=1)

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        return [self.process(f, worker).with_changes(batch=len(frames)) for f in frames]

    def renew(self, worker: int) -> None:
        self.renewed.append(worker)

    def close(self) -> None:
        self.closed = True


def frame(rung: str) -> Frame:
    return Frame("a", 0, 0, 10, rung=rung)


def test_a_frame_meets_the_stage_of_its_rung() -> None:
    stage = ByRung({"full": Named("large"), "small": Named("tiny")})
    assert stage.name == "infer"
    assert stage.process(frame("full"), 0).variant == "large 0"
    assert stage.process(frame("small"), 1).variant == "tiny 1"


def test_frames_of_rungs_that_run_one_variant_make_one_batch() -> None:
    shared = Named("tiny")
    stage = BatchByRung({"small": shared, "small + stride 2": shared})
    answers = stage.process_batch([frame("small"), frame("small + stride 2")], 0)
    assert [answer.batch for answer in answers if isinstance(answer, Frame)] == [2, 2]


def test_a_batch_of_two_variants_is_refused() -> None:
    stage = BatchByRung({"full": Named("large"), "small": Named("tiny")})
    with pytest.raises(ValueError, match="frames of one variant"):
        stage.process_batch([frame("full"), frame("small")], 0)


def test_stages_of_different_names_cannot_stand_for_each_other() -> None:
    with pytest.raises(ValueError, match="have one name"):
        ByRung({"full": Named("a"), "small": Named("b", "convert")})


def test_each_stage_is_renewed_once_and_none_is_closed() -> None:
    large, tiny = Named("large"), Named("tiny")
    stage = ByRung({"full": large, "small": tiny, "small + stride 2": tiny})
    stage.renew(1)
    stage.close()
    assert (large.renewed, tiny.renewed) == ([1], [1])
    assert [large.closed, tiny.closed] == [False, False]
