"""One stage for each variant of the model; the rung of the frame says which works."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import BatchStage, Stage

AnyStage = TypeVar("AnyStage", bound=Stage)


class ByRung(Generic[AnyStage]):
    """Stands for several stages of one name, of which each frame meets one. Stateless.

    Closes none of them: whoever made them does.

    Args:
        stages: By the name of the rung.
    """

    def __init__(self, stages: Mapping[str, AnyStage]) -> None:
        names = {stage.name for stage in stages.values()}
        if len(names) != 1:
            raise ValueError(f"stages that stand for each other have one name: {names}")
        self._stages = dict(stages)
        (self.name,) = names

    def process(self, frame: Frame, worker: int) -> Frame:
        """What the stage of the frame's rung makes of it."""
        return self._stages[frame.rung].process(frame, worker)

    def renew(self, worker: int) -> None:
        """Each of the stages that keeps something for each worker gets it anew."""
        for stage in dict.fromkeys(self._stages.values()):
            renew: Callable[[int], None] | None = getattr(stage, "renew", None)
            if renew is not None:
                renew(worker)

    def close(self) -> None:
        """Whoever made the stages closes them."""


class BatchByRung(ByRung[BatchStage]):
    """The same for stages that take batches."""

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        """The frames may be on rungs of different names, but not of different stages.

        Raises:
            ValueError: They are: the scheduler must not have batched them.
        """
        stage, *others = (self._stages[frame.rung] for frame in frames)
        if any(other is not stage for other in others):
            raise ValueError("a batch needs frames of one variant")
        return stage.process_batch(frames, worker)
