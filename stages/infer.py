"""Inference and NMS on the network input that Convert prepared."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.detector import Detector, Found
from edgepipe.pipeline.buffers import Slot
from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame, Letterbox
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason


class Infer:
    """Runs the detector; boxes come out in pixels of the captured image. Stateless.

    Takes the frame's tensor and gives its slot back when the network is done with it.

    Args:
        detector: Shared by all streams; closed by whoever made it.
        variant: What to call it in the records of frames that have no ladder.
        batch_max: Most frames that come at once.
    """

    name = "infer"

    def __init__(self, detector: Detector, variant: str, batch_max: int = 1) -> None:
        self._detector = detector
        self._variant = variant
        self._batch_max = batch_max
        self._batches: dict[int, NDArray[np.uint8]] = {}
        """Each worker's memory for the images of a batch, side by side."""

    def process(self, frame: Frame, worker: int) -> Frame:
        """Replace the tensor by detections.

        Raises:
            FrameError: ``bad_output``: the network's output is not finite.
        """
        slot, letterbox = _input(frame)
        try:
            found = self._detector.detect(slot.array[None], worker)[0]
        except BadOutputError as error:
            raise FrameError(Reason.BAD_OUTPUT, str(error)) from error
        return self._finished(frame, slot, letterbox, found, 1)

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        """The same for frames of one variant, in one call of the engine."""
        inputs = [_input(frame) for frame in frames]
        images = self._side_by_side([slot.array for slot, _ in inputs], worker)
        made: list[Frame | Exception] = []
        for frame, (slot, letterbox), found in zip(
            frames, inputs, self._detector.detect_each(images, worker), strict=True
        ):
            if isinstance(found, BadOutputError):
                made.append(FrameError(Reason.BAD_OUTPUT, str(found)))
            else:
                made.append(self._finished(frame, slot, letterbox, found, len(frames)))
        return made

    def _finished(
        self,
        frame: Frame,
        slot: Slot,
        letterbox: Letterbox,
        found: Found,
        batch: int,
    ) -> Frame:
        detections = Detections.of(
            letterbox.to_captured(found.xyxy),
            found.score,
            found.class_id,
            truncated=found.truncated,
        )
        # Last: what raises above leaves the slot with the frame, for the runtime.
        slot.give_back()
        return frame.with_changes(
            tensor=None,
            detections=detections,
            variant=frame.rung or self._variant,
            batch=batch,
        )

    def _side_by_side(
        self, images: Sequence[NDArray[np.uint8]], worker: int
    ) -> NDArray[np.uint8]:
        """(n, height, width, 3): engines want a batch in one piece."""
        memory = self._batches.get(worker)
        if memory is None or len(memory) < len(images):
            size = max(self._batch_max, len(images))
            memory = np.zeros((size, *images[0].shape), np.uint8)
            self._batches[worker] = memory
        batch = memory[: len(images)]
        for place, image in zip(batch, images, strict=True):
            place[...] = image
        return batch

    def renew(self, worker: int) -> None:
        """Another request and other memory for the worker of this number.

        Raises:
            EngineError: The engine has no more requests.
        """
        self._batches.pop(worker, None)
        self._detector.renew(worker)

    def close(self) -> None:
        """The detector is closed by whoever made it."""


def _input(frame: Frame) -> tuple[Slot, Letterbox]:
    if frame.tensor is None or frame.letterbox is None:
        raise ValueError("infer needs a converted frame")
    return frame.tensor, frame.letterbox
