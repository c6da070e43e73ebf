"""Inference and NMS on the network input that Convert prepared."""

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.detector import Detector
from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason


class Infer:
    """Runs the detector; boxes come out in pixels of the captured image. Stateless.

    Takes the frame's tensor and gives its slot back when the network is done with it.
    """

    name = "infer"

    def __init__(self, detector: Detector, variant: str) -> None:
        self._detector = detector
        self._variant = variant

    def process(self, frame: Frame, worker: int) -> Frame:
        """Replace the tensor by detections.

        Raises:
            FrameError: ``bad_output``: the network's output is not finite.
        """
        slot, letterbox = frame.tensor, frame.letterbox
        if slot is None or letterbox is None:
            raise ValueError("infer needs a converted frame")
        try:
            found = self._detector.detect(slot.array[None], worker)[0]
        except BadOutputError as error:
            raise FrameError(Reason.BAD_OUTPUT, str(error)) from error
        detections = Detections.of(
            letterbox.to_captured(found.xyxy),
            found.score,
            found.class_id,
            truncated=found.truncated,
        )
        # Last: what raises above leaves the slot with the frame, for the runtime.
        slot.give_back()
        return frame.with_changes(
            tensor=None, detections=detections, variant=self._variant, batch=1
        )

    def close(self) -> None:
        """The detector is closed by whoever made it."""
