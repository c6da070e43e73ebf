"""Cameras of Linux (V4L2): negotiation, buffers, stamps of the kernel."""

import errno
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from edgepipe.pipeline.frame import ColorMatrix
from edgepipe.stages.sources import v4l2_abi as abi
from edgepipe.stages.sources.camera import (
    CameraError,
    CameraFacts,
    Shot,
    ShotDecoder,
)
from edgepipe.stages.sources.integrity import Integrity
from edgepipe.stages.sources.raw_formats import RawFormat
from edgepipe.stages.sources.references import Disposability
from edgepipe.stages.sources.shot_decoders import CODECS, decoder_for
from edgepipe.stages.sources.v4l2_formats import Offer, choose, offers
from edgepipe.stages.sources.v4l2_kernel import Kernel, Memory
from edgepipe.telemetry.clock import Clock

BUFFERS = 4
"""One is being filled, one is being copied, and two are for a late reader."""
WAIT_S = 0.1
MOST_ERRORS = 10
"""So many input errors in a row end a connection."""


class Wanted(NamedTuple):
    """What a camera is asked for; None: the camera's choice."""

    width: int | None = None
    height: int | None = None
    fps: float | None = None
    fourcc: str | None = None


class V4l2Camera:
    """A camera at a path, which may be a link that names the device itself.

    Args:
        path: Of the node, or of a link to it. It is followed at every try: what is
            ``video0`` now may be another camera tomorrow.
        wanted: Size, rate and format.
        kernel: The operating system.
        clock: The time.
    """

    def __init__(self, path: str, wanted: Wanted, kernel: Kernel, clock: Clock) -> None:
        self._path, self._wanted = path, wanted
        self._kernel, self._clock = kernel, clock

    def connect(self) -> "V4l2Connection":
        """Open the device and start it.

        Raises:
            CameraError: It is not there, in use, or no camera.
        """
        kernel, path = self._kernel, self._path
        try:
            node = kernel.resolve(path)
        except OSError as error:
            raise CameraError(f"{path} is not there", is_absent=True) from error
        claim = None
        try:
            claim = kernel.reserve(node)
            if claim is None:
                raise CameraError(f"{_in_use(kernel, node)}, by edgepipe")
            fd = kernel.open(node)
        except OSError as error:
            _close_claim(claim)
            raise _why(kernel, node, error) from error
        try:
            return V4l2Connection(fd, node, self._wanted, kernel, self._clock, claim)
        except OSError as error:
            kernel.close(fd)
            _close_claim(claim)
            raise _why(kernel, node, error) from error
        except BaseException:
            kernel.close(fd)
            _close_claim(claim)
            raise

    def other_edgepipe(self) -> str:
        """Who has the camera, if that is another edgepipe; else empty."""
        try:
            node = self._kernel.resolve(self._path)
            claim = self._kernel.reserve(node)
        except OSError:
            return ""
        _close_claim(claim)
        return (
            "" if claim is not None else f"{_in_use(self._kernel, node)}, by edgepipe"
        )

    def is_there(self) -> bool | None:
        """Whether the path leads to a device at this moment."""
        return self._kernel.exists(self._path)

    def interrupt(self) -> None:
        """Opening a device does not wait."""


class V4l2Connection:
    """A device that streams.

    Attributes:
        facts: What was agreed on.
        decoder: For its images.
    """

    def __init__(
        self,
        fd: int,
        node: str,
        wanted: Wanted,
        kernel: Kernel,
        clock: Clock,
        claim: socket.socket | None,
    ) -> None:
        self._fd, self._node, self._claim = fd, node, claim
        self._kernel, self._clock = kernel, clock
        self._notes: list[str] = []
        self._memories: list[Memory] = []
        self._check_abilities()
        self._layout = self._agree(wanted)
        fps = self._set_rate(wanted.fps)
        self._fourcc = abi.fourcc(self._layout.pixelformat)
        width, height = self._layout.width, self._layout.height
        self.decoder: ShotDecoder = decoder_for(self._fourcc, _raw_format(self._layout))
        codec = CODECS.get(self._fourcc, "")
        self._integrity = Integrity(codec, None)
        self._disposability = Disposability(codec, None)
        self._sequence: int | None = None
        self._errors = 0
        self._is_stamped = True
        self._count = 0
        self._closing, self._is_closed = Lock(), False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._make_buffers()
            kernel.stream(fd, abi.STREAMON)
        except BaseException:
            self._free()
            raise
        self.facts = CameraFacts(
            width, height, fps, self._fourcc.strip().lower(), tuple(self._notes)
        )

    def read(self) -> Shot | None:
        """The next image, copied out of the driver's memory.

        Raises:
            CameraError: The device is gone or does not work.
        """
        if not self._kernel.wait(self._fd, self._wake_read, WAIT_S):
            return None
        buffer = self._buffer()
        try:
            self._kernel.ioctl(self._fd, abi.DQBUF, buffer)
        except OSError as error:
            self._note_no_buffer(error)
            return None
        now_ns = self._clock.now_ns()
        self._errors = 0
        data = bytes(memoryview(self._memories[buffer.index])[: buffer.bytesused])
        shot = self._shot(buffer, data, now_ns)
        try:
            self._kernel.ioctl(self._fd, abi.QBUF, self._buffer(buffer.index))
        except OSError as error:
            raise _why(self._kernel, self._node, error) from error
        return shot

    def interrupt(self) -> None:
        """Make :meth:`read` come back at once."""
        with self._closing, suppress(BlockingIOError):  # it has been woken already
            if not self._is_closed:
                os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Stop it and let go of it: others can open it from now on."""
        with suppress(OSError):  # it may be gone
            self._kernel.stream(self._fd, abi.STREAMOFF)
        self._free()
        self._kernel.close(self._fd)
        _close_claim(self._claim)

    # --- negotiation ------------------------------------------------------------------

    def _check_abilities(self) -> None:
        found = abi.Capability()
        self._kernel.ioctl(self._fd, abi.QUERYCAP, found)
        has_own = found.capabilities & abi.CAP_DEVICE_CAPS
        abilities = found.device_caps if has_own else found.capabilities
        if not abilities & abi.CAP_CAPTURE:
            raise CameraError(f"{self._node} gives no images: it is no camera")
        if not abilities & abi.CAP_STREAMING:
            raise CameraError(f"{self._node} cannot stream into memory")

    def _agree(self, wanted: Wanted) -> abi.PixelLayout:
        current = abi.Format(type=abi.CAPTURE)
        self._kernel.ioctl(self._fd, abi.G_FMT, current)
        layout = current.fmt.pix
        width, height = wanted.width or layout.width, wanted.height or layout.height
        offered: Sequence[Offer] = offers(self._kernel, self._fd, width, height)
        chosen = choose(offered, wanted.fps, wanted.fourcc)
        if chosen is None:
            known = ", ".join(offer.fourcc for offer in offered) or "nothing"
            asked = wanted.fourcc or "a format that is known"
            raise CameraError(f"{self._node} does not offer {asked}, but {known}")
        layout.width, layout.height = width, height
        layout.pixelformat = abi.code(chosen.fourcc)
        layout.field = 0
        layout.bytesperline = layout.sizeimage = 0
        self._kernel.ioctl(self._fd, abi.S_FMT, current)
        given: abi.PixelLayout = current.fmt.pix
        if abi.fourcc(given.pixelformat) != chosen.fourcc:
            raise CameraError(f"{self._node} offers {chosen.fourcc} and refuses it")
        if (given.width, given.height) != (width, height):
            self._notes.append(
                f"{self._node} gives {given.width} x {given.height}"
                f" instead of {width} x {height}"
            )
        return given

    def _set_rate(self, fps: float | None) -> float | None:
        parameters = abi.StreamParameters(type=abi.CAPTURE)
        try:
            self._kernel.ioctl(self._fd, abi.G_PARM, parameters)
            capture = parameters.parm.capture
            if fps is not None and capture.capability & abi.CAP_TIMEPERFRAME:
                capture.timeperframe.numerator = 1000
                capture.timeperframe.denominator = round(fps * 1000)
                self._kernel.ioctl(self._fd, abi.S_PARM, parameters)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTTY):
                raise
            return fps  # it has no rate to tell or set
        step = parameters.parm.capture.timeperframe
        given = step.denominator / step.numerator if step.numerator else None
        if fps is not None and given is not None and abs(given - fps) > 0.05 * fps:
            self._notes.append(f"{self._node} gives {given:g} fps instead of {fps:g}")
        return given or fps

    # --- buffers ----------------------------------------------------------------------

    def _buffer(self, index: int = 0) -> abi.Buffer:
        return abi.Buffer(index=index, type=abi.CAPTURE, memory=abi.MMAP)

    def _make_buffers(self) -> None:
        request = abi.RequestBuffers(BUFFERS, abi.CAPTURE, abi.MMAP)
        self._kernel.ioctl(self._fd, abi.REQBUFS, request)
        if request.count < 2:
            raise CameraError(f"{self._node} has memory for {request.count} images")
        for index in range(request.count):
            buffer = self._buffer(index)
            self._kernel.ioctl(self._fd, abi.QUERYBUF, buffer)
            self._memories.append(
                self._kernel.map(self._fd, buffer.length, buffer.m.offset)
            )
            self._kernel.ioctl(self._fd, abi.QBUF, self._buffer(index))

    def _free(self) -> None:
        for memory in self._memories:
            self._kernel.unmap(memory)
        self._memories.clear()
        request = abi.RequestBuffers(0, abi.CAPTURE, abi.MMAP)
        with suppress(OSError):
            self._kernel.ioctl(self._fd, abi.REQBUFS, request)
        with self._closing:  # the numbers may belong to somebody else after this
            self._is_closed = True
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _note_no_buffer(self, error: OSError) -> None:
        if error.errno == errno.EAGAIN:
            return
        self._errors += 1
        if error.errno == errno.EIO and self._errors < MOST_ERRORS:
            return
        raise _why(self._kernel, self._node, error) from error

    def _shot(self, buffer: abi.Buffer, data: bytes, now_ns: int) -> Shot:
        sequence, last = buffer.sequence, self._sequence
        self._sequence = sequence
        lost = 0 if last is None else (sequence - last - 1) % 2**32
        if lost >= 2**31:
            lost = 0  # the driver began to count anew
        damage = ""
        if buffer.flags & abi.FLAG_ERROR:
            damage = "the driver reports an error in it"
        elif not data:
            damage = "it is empty"
        else:
            damage = self._integrity.fault(data)
        is_key = True
        if self._fourcc in ("H264", "HEVC"):
            is_key = bool(buffer.flags & abi.FLAG_KEYFRAME) or _has_parameters(
                data, self._fourcc
            )
        self._count += 1
        return Shot(
            data,
            self._captured_ns(buffer, now_ns),
            len(data),
            is_key,
            self._count,
            None,
            lost,
            damage,
            self._disposability.of(data),
        )

    def _captured_ns(self, buffer: abi.Buffer, now_ns: int) -> int:
        clock = buffer.flags & abi.FLAG_TIMESTAMP_MASK
        stamp = buffer.timestamp
        stamp_ns: int = stamp.tv_sec * 1_000_000_000 + stamp.tv_usec * 1000
        if clock == abi.FLAG_TIMESTAMP_MONOTONIC and stamp_ns:
            return stamp_ns
        if self._is_stamped:
            self._is_stamped = False
            note = f"{self._node} has no monotonic stamps: the time of arrival is taken"
            self._notes.append(note)
            facts = self.facts
            self.facts = CameraFacts(
                facts.width, facts.height, facts.fps, facts.codec, tuple(self._notes)
            )
        return now_ns


def _has_parameters(data: bytes, fourcc: str) -> bool:
    """Whether an access unit brings what a decoder needs to begin."""
    head = data[:256]
    at = head.find(b"\0\0\1")
    while 0 <= at < len(head) - 3:
        unit = head[at + 3]
        if fourcc == "H264" and unit & 31 in (5, 7):
            return True
        if fourcc == "HEVC" and (unit >> 1 & 63) in (*range(16, 22), 32, 33):
            return True
        at = head.find(b"\0\0\1", at + 3)
    return False


def _raw_format(layout: abi.PixelLayout) -> RawFormat:
    matrix = {1: ColorMatrix.BT601, 2: ColorMatrix.BT709, 6: ColorMatrix.BT2020}
    # By enum v4l2_ycbcr_encoding; without one, what goes with the colour space.
    usual = ColorMatrix.BT709 if layout.colorspace == 3 else ColorMatrix.BT601
    jpeg = layout.colorspace == 7
    return RawFormat(
        abi.fourcc(layout.pixelformat),
        layout.width,
        layout.height,
        layout.bytesperline,
        matrix.get(layout.ycbcr_enc, usual),
        layout.quantization == 1 or (layout.quantization == 0 and jpeg),
    )


def _in_use(kernel: Kernel, node: str) -> str:
    holders = kernel.holders(node)
    who = ", ".join(holders) if holders else "a process that cannot be looked at"
    return f"{node} is in use by {who}"


def _close_claim(claim: socket.socket | None) -> None:
    if claim is not None:
        claim.close()


def _why(kernel: Kernel, node: str, error: OSError) -> CameraError:
    """An error of the system in words."""
    if error.errno == errno.EBUSY:
        return CameraError(_in_use(kernel, node))
    if error.errno in (errno.ENODEV, errno.ENXIO, errno.ENOENT):
        return CameraError(f"{node} was unplugged", is_absent=True)
    if error.errno in (errno.EACCES, errno.EPERM):
        return CameraError(f"{node}: no permission; is the user in the group video?")
    if error.errno == errno.ENOTTY:
        return CameraError(f"{node} is no camera")
    return CameraError(f"{node}: {os.strerror(error.errno or 0).lower()}")
