"""A Linux with scripted cameras: it stands in where V4L2 is called.

It checks what a driver would check: that buffers are queued before they are filled,
that streaming is on, that memory is unmapped before buffers are given back.
"""

import ctypes
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from edgepipe.stages.sources import v4l2_abi as abi
from edgepipe.telemetry.clock import ManualClock

SECOND_NS = 1_000_000_000


@dataclass
class Device:
    """One camera, plugged in or not."""

    formats: dict[str, list[float]] = field(
        default_factory=lambda: {"YUYV": [30.0, 15.0]}
    )
    """Code to rates."""
    size: tuple[int, int] = (4, 2)
    sizes: tuple[tuple[int, int], ...] = ()
    """Those that it can be set to; none: any."""
    image: Callable[[int], bytes] = lambda sequence: bytes([sequence % 256]) * 16
    flags: int = abi.FLAG_TIMESTAMP_MONOTONIC
    flags_of: dict[int, int] = field(default_factory=dict[int, int])
    """More flags by sequence number."""
    skips: frozenset[int] = frozenset()
    """Sequence numbers that never come."""
    errors: dict[int, int] = field(default_factory=dict[int, int])
    """Error number by how often an image was asked for."""
    capabilities: int = abi.CAP_CAPTURE | abi.CAP_STREAMING
    first_ns: int = 0
    """No image before this."""
    is_gone: bool = False
    busy: list[str] = field(default_factory=list[str])
    """Who else has it."""
    code: str = "YUYV"
    fps: float = 30.0
    opened: int = 0
    closed: int = 0


@dataclass
class _Open:
    device: Device
    queued: list[int] = field(default_factory=list[int])
    memories: list[bytearray] = field(default_factory=list[bytearray])
    mapped: int = 0
    buffers: int = 0
    streams: bool = False
    began_ns: int = 0
    sequence: int = 0
    asked: int = 0


class ScriptedKernel:
    """Devices at nodes, links to nodes, and a clock that moves while somebody waits."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.nodes: dict[str, Device] = {}
        self.links: dict[str, str] = {}
        self.opened_nodes: list[str] = []
        self._open: dict[int, _Open] = {}
        self._next_fd = 1000
        self.before: Callable[[], None] = lambda: None
        """Called before anything is looked at: what happens by itself."""

    def resolve(self, path: str) -> str:
        self.before()
        node = self.links.get(path, path)
        if node not in self.nodes:
            raise FileNotFoundError(errno.ENOENT, "not there")
        return node

    def exists(self, path: str) -> bool:
        self.before()
        return self.links.get(path, path) in self.nodes

    def open(self, node: str) -> int:
        self.before()
        device = self.nodes.get(node)
        if device is None:
            raise OSError(errno.ENOENT, "not there")
        device.opened += 1
        self.opened_nodes.append(node)
        self._next_fd += 1
        self._open[self._next_fd] = _Open(device)
        return self._next_fd

    def close(self, fd: int) -> None:
        opened = self._open.pop(fd)
        assert opened.mapped == 0
        opened.device.closed += 1

    def holders(self, node: str) -> list[str]:
        return self.nodes[node].busy

    def reserve(self, node: str) -> socket.socket | None:
        return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def map(self, fd: int, length: int, offset: int) -> bytearray:
        opened = self._open[fd]
        opened.mapped += 1
        opened.memories.append(bytearray(length))
        return opened.memories[-1]

    def unmap(self, memory: bytearray) -> None:
        for opened in self._open.values():
            opened.mapped -= any(each is memory for each in opened.memories)

    def stream(self, fd: int, request: int) -> None:
        opened = self._open[fd]
        if request == abi.STREAMON:
            assert opened.queued
            self._check(opened)
            opened.streams, opened.began_ns = True, self.clock.now_ns()
        else:
            opened.streams = False
            opened.queued.clear()

    def wait(self, fd: int, wake_fd: int, timeout_s: float) -> bool:
        """Move on to the next image, or for as long as somebody would have waited."""
        self.before()
        opened = self._open[fd]
        assert opened.streams
        now_ns = self.clock.now_ns()
        until_ns = now_ns + int(timeout_s * 1e9)
        due_ns = self._due_ns(opened)
        if opened.device.is_gone or due_ns <= until_ns:
            if not opened.device.is_gone:
                self.clock.advance(max(0, due_ns - now_ns))
            self.before()
            return True
        self.clock.advance(until_ns - now_ns)
        self.before()
        return False

    def _due_ns(self, opened: _Open) -> int:
        device = opened.device
        while opened.sequence in device.skips:
            opened.sequence += 1
        begin_ns = max(opened.began_ns, device.first_ns)
        return begin_ns + round(opened.sequence * 1e9 / device.fps)

    def _check(self, opened: _Open) -> None:
        if opened.device.is_gone:
            raise OSError(errno.ENODEV, "unplugged")

    def ioctl(self, fd: int, request: int, argument: ctypes.Structure) -> None:
        opened = self._open[fd]
        self._check(opened)
        match argument:
            case abi.Capability():
                argument.capabilities = abi.CAP_DEVICE_CAPS | 0xFFFF
                argument.device_caps = opened.device.capabilities
            case abi.FormatDescription():
                codes = list(opened.device.formats)
                if argument.index >= len(codes):
                    raise OSError(errno.EINVAL, "no more")
                argument.pixelformat = abi.code(codes[int(argument.index)])
            case abi.FrameInterval():
                self._tell_rate(opened.device, argument)
            case abi.Format():
                self._format(opened.device, request, argument.fmt.pix)
            case abi.StreamParameters():
                self._rate(opened.device, request, argument.parm.capture)
            case abi.RequestBuffers():
                assert not (argument.count == 0 and opened.mapped)
                opened.buffers = argument.count
            case abi.Buffer():
                self._buffer(opened, request, argument)
            case _:
                raise OSError(errno.ENOTTY, "not known")

    def _tell_rate(self, device: Device, asked: abi.FrameInterval) -> None:
        rates = device.formats[abi.fourcc(int(asked.pixel_format))]
        if asked.index >= len(rates):
            raise OSError(errno.EINVAL, "no more")
        asked.type = abi.DISCRETE
        asked.shortest.numerator = 1000
        asked.shortest.denominator = round(rates[int(asked.index)] * 1000)

    def _format(self, device: Device, request: int, pix: abi.PixelLayout) -> None:
        if request == abi.S_FMT:
            if device.busy:
                raise OSError(errno.EBUSY, "busy")
            device.code = abi.fourcc(pix.pixelformat)
            wanted = pix.width, pix.height
            if not device.sizes or wanted in device.sizes:
                device.size = wanted
        pix.width, pix.height = device.size
        pix.pixelformat = abi.code(device.code)
        pix.bytesperline = 2 * device.size[0] if device.code == "YUYV" else 0
        pix.sizeimage = 2 * device.size[0] * device.size[1]

    def _rate(
        self, device: Device, request: int, capture: abi.CaptureParameters
    ) -> None:
        rates = device.formats[device.code]
        if request == abi.S_PARM:
            step = capture.timeperframe
            wanted: float = step.denominator / step.numerator
            device.fps = min(rates, key=lambda rate: abs(rate - wanted))
        elif device.fps not in rates:
            device.fps = rates[0]
        capture.capability = abi.CAP_TIMEPERFRAME
        capture.timeperframe.numerator = 1000
        capture.timeperframe.denominator = round(device.fps * 1000)

    def _buffer(self, opened: _Open, request: int, buffer: abi.Buffer) -> None:
        assert (buffer.type, buffer.memory) == (abi.CAPTURE, abi.MMAP)
        if request == abi.QUERYBUF:
            buffer.length, buffer.m.offset = 1 << 16, buffer.index << 16
        elif request == abi.QBUF:
            assert buffer.index < opened.buffers
            assert buffer.index not in opened.queued
            opened.queued.append(buffer.index)
        else:
            self._fill(opened, buffer)

    def _fill(self, opened: _Open, buffer: abi.Buffer) -> None:
        device = opened.device
        opened.asked += 1
        if opened.asked - 1 in device.errors:
            raise OSError(device.errors[opened.asked - 1], "scripted")
        due_ns = self._due_ns(opened)
        if not opened.queued or due_ns > self.clock.now_ns():
            raise OSError(errno.EAGAIN, "nothing yet")
        buffer.index = opened.queued.pop(0)
        buffer.sequence = opened.sequence
        opened.sequence += 1
        buffer.flags = device.flags | device.flags_of.get(buffer.sequence, 0)
        seconds, rest = divmod(due_ns, SECOND_NS)
        buffer.timestamp.tv_sec, buffer.timestamp.tv_usec = seconds, rest // 1000
        data = device.image(buffer.sequence)
        buffer.bytesused = len(data)
        opened.memories[buffer.index][: len(data)] = data
