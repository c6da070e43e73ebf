"""Cameras behind GStreamer: those on a Jetson's CSI connectors."""

from collections.abc import Sequence
from threading import Event

from edgepipe.stages.sources.camera import CameraError, CameraFacts, Shot
from edgepipe.stages.sources.gstreamer import (
    BrokenError,
    Chain,
    Element,
    MissingError,
    Sample,
)
from edgepipe.stages.sources.raw_formats import OF_GSTREAMER, RawFormat
from edgepipe.stages.sources.shot_decoders import RawDecoder
from edgepipe.telemetry.clock import Clock

CSI_CAMERA, CSI_CONVERTER = "nvarguscamerasrc", "nvvidconv"


def csi(sensor: int, width: int, height: int, fps: float) -> Sequence[Element]:
    """The chain of a CSI camera: the sensor, and a copy out of the device's memory."""
    rate = f"{round(fps * 1000)}/1000"
    size = f"width={width:d},height={height:d}"
    return (
        Element(
            CSI_CAMERA,
            {"sensor-id": sensor},
            f"video/x-raw(memory:NVMM),{size},format=NV12,framerate={rate}",
        ),
        Element(CSI_CONVERTER, {}, "video/x-raw,format=NV12"),
    )


class GstCamera:
    """A camera at the beginning of a chain.

    Args:
        elements: The chain; it ends in raw video.
        fps: The rate that it is made for.
        connect_s: Longest time from starting it to its first picture.
        clock: The time.
    """

    def __init__(
        self, elements: Sequence[Element], fps: float, connect_s: float, clock: Clock
    ) -> None:
        self._elements, self._fps = elements, fps
        self._connect_s, self._clock = connect_s, clock
        self._stop = Event()

    def connect(self) -> "GstConnection":
        """Start the chain and wait for its first picture.

        Raises:
            CameraError: It does not start, or nothing comes.
        """
        try:
            chain = Chain(self._elements)
        except (MissingError, BrokenError) as error:
            raise CameraError(str(error)) from error
        try:
            chain.start()
            return GstConnection(chain, self._first(chain), self._fps, self._clock)
        except BrokenError as error:
            chain.close()
            raise CameraError(str(error)) from error
        except BaseException:
            chain.close()
            raise

    def _first(self, chain: Chain) -> Sample:
        give_up_ns = self._clock.now_ns() + int(self._connect_s * 1e9)
        while self._clock.now_ns() < give_up_ns and not self._stop.is_set():
            sample = chain.pull()
            if sample is not None:
                return sample
        raise CameraError(f"no picture for {self._connect_s:.1f} s")

    def is_there(self) -> bool | None:
        """Only trying can tell."""
        return None

    def interrupt(self) -> None:
        """Make :meth:`connect` come back soon."""
        self._stop.set()


class GstConnection:
    """A chain that runs.

    Attributes:
        facts: What it gives.
        decoder: Of its raw pictures.
    """

    def __init__(self, chain: Chain, first: Sample, fps: float, clock: Clock) -> None:
        fourcc = OF_GSTREAMER.get(first.format)
        if fourcc is None:
            raise CameraError(f"pictures in the format {first.format} cannot be read")
        self._chain, self._clock = chain, clock
        self._first: Sample | None = first
        self._count = 0
        self._stop = Event()
        self.decoder = RawDecoder(
            RawFormat(fourcc, first.width, first.height, first.bytes_per_line)
        )
        notes: tuple[str, ...] = ()
        if first.clock_ns is None:
            notes = ("no monotonic stamps: the time of arrival is taken",)
        self.facts = CameraFacts(first.width, first.height, fps, "raw", notes)

    def read(self) -> Shot | None:
        """The next picture.

        Raises:
            CameraError: The chain has failed or ended.
        """
        sample, self._first = self._first, None
        if sample is None and not self._stop.is_set():
            try:
                sample = self._chain.pull()
            except BrokenError as error:
                raise CameraError(str(error)) from error
        if sample is None:
            return None
        now_ns = self._clock.now_ns()
        stamp_ns = sample.clock_ns
        self._count += 1
        return Shot(
            sample.data,
            now_ns if stamp_ns is None or stamp_ns > now_ns else stamp_ns,
            len(sample.data),
            stamp=self._count,
        )

    def interrupt(self) -> None:
        """Make :meth:`read` come back soon."""
        self._stop.set()

    def close(self) -> None:
        """Stop it."""
        self._chain.close()
