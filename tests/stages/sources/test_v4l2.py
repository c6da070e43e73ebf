"""Cameras of Linux, against drivers that do what a test tells them.

No camera takes part: what is proven is what is asked of the kernel and what is made of
its answers. That sizes and numbers are the kernel's is compared with its header.
"""

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import PixelFormat
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources import v4l2_abi as abi
from edgepipe.stages.sources.camera import CameraError, Shot
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.v4l2 import MOST_ERRORS, V4l2Camera, V4l2Connection, Wanted
from edgepipe.stages.sources.v4l2_formats import Offer, choose
from edgepipe.stages.sources.v4l2_kernel import LinuxKernel
from edgepipe.telemetry.clock import ManualClock

from .v4l2_double import SECOND_NS, Device, ScriptedKernel

NODE = "/dev/video0"


def connect(
    device: Device, wanted: Wanted | None = None, now_ns: int = 5 * SECOND_NS
) -> V4l2Connection:
    kernel = ScriptedKernel(ManualClock(now_ns))
    kernel.nodes[NODE] = device
    return V4l2Camera(NODE, wanted or Wanted(), kernel, kernel.clock).connect()


def shots(connection: V4l2Connection, count: int) -> list[Shot]:
    found = list[Shot]()
    while len(found) < count:
        shot = connection.read()
        if shot is not None:
            found.append(shot)
    return found


# --- the interface --------------------------------------------------------------------

STRUCTS = {
    "v4l2_capability": abi.Capability,
    "v4l2_fmtdesc": abi.FormatDescription,
    "v4l2_frmsizeenum": abi.FrameSize,
    "v4l2_frmivalenum": abi.FrameInterval,
    "v4l2_pix_format": abi.PixelLayout,
    "v4l2_format": abi.Format,
    "v4l2_captureparm": abi.CaptureParameters,
    "v4l2_streamparm": abi.StreamParameters,
    "v4l2_requestbuffers": abi.RequestBuffers,
    "v4l2_buffer": abi.Buffer,
}
REQUESTS = (
    *("QUERYCAP", "ENUM_FMT", "G_FMT", "S_FMT", "REQBUFS", "QUERYBUF", "QBUF", "DQBUF"),
    *("STREAMON", "STREAMOFF", "G_PARM", "S_PARM"),
    *("ENUM_FRAMESIZES", "ENUM_FRAMEINTERVALS"),
)
FIELDS = {
    "v4l2_buffer": ("bytesused", "flags", "timestamp", "sequence", "memory", "m"),
    "v4l2_capability": ("capabilities", "device_caps"),
    "v4l2_format": ("fmt",),
    "v4l2_frmivalenum": ("type",),
    "v4l2_pix_format": ("pixelformat", "bytesperline", "colorspace", "quantization"),
    "v4l2_captureparm": ("capability", "timeperframe"),
}
FLAGS = {
    "V4L2_BUF_TYPE_VIDEO_CAPTURE": abi.CAPTURE,
    "V4L2_MEMORY_MMAP": abi.MMAP,
    "V4L2_FRMIVAL_TYPE_DISCRETE": abi.DISCRETE,
    "V4L2_CAP_VIDEO_CAPTURE": abi.CAP_CAPTURE,
    "V4L2_CAP_STREAMING": abi.CAP_STREAMING,
    "V4L2_CAP_DEVICE_CAPS": abi.CAP_DEVICE_CAPS,
    "V4L2_CAP_TIMEPERFRAME": abi.CAP_TIMEPERFRAME,
    "V4L2_BUF_FLAG_KEYFRAME": abi.FLAG_KEYFRAME,
    "V4L2_BUF_FLAG_ERROR": abi.FLAG_ERROR,
    "V4L2_BUF_FLAG_TIMESTAMP_MASK": abi.FLAG_TIMESTAMP_MASK,
    "V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC": abi.FLAG_TIMESTAMP_MONOTONIC,
    "V4L2_PIX_FMT_YUYV": abi.code("YUYV"),
    "V4L2_PIX_FMT_MJPEG": abi.code("MJPG"),
}


def test_sizes_offsets_and_numbers_are_those_of_the_kernels_header(
    tmp_path: Path,
) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include/linux/videodev2.h").exists():
        pytest.skip("no C compiler, or no kernel headers")
    expected = dict[str, int]()
    lines = list[str]()

    def compare(expression: str, value: int) -> None:
        expected[expression] = value
        lines.append(f'printf("%lu\\n", (unsigned long)({expression}));')

    for name, struct in STRUCTS.items():
        compare(f"sizeof(struct {name})", ctypes.sizeof(struct))
        for field in FIELDS.get(name, ()):
            compare(f"offsetof(struct {name}, {field})", getattr(struct, field).offset)
    for request in REQUESTS:
        compare(f"VIDIOC_{request}", getattr(abi, request))
    for flag, value in FLAGS.items():
        compare(flag, value)
    source = tmp_path / "numbers.c"
    body = "\n".join(lines)
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/videodev2.h>\n"
        f"int main(void) {{\n{body}\nreturn 0; }}\n"
    )
    program = tmp_path / "numbers"
    subprocess.run([compiler, "-o", program, source], check=True)
    told = subprocess.run([program], check=True, capture_output=True, text=True)
    assert dict(zip(expected, map(int, told.stdout.split()), strict=True)) == expected


# --- negotiation ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "fps", "fourcc", "chosen"),
    [
        ({"MJPG": 30, "YUYV": 30}, None, None, "YUYV"),
        ({"MJPG": 30, "YUYV": 5}, None, None, "MJPG"),
        ({"MJPG": 30, "YUYV": 10}, 10, None, "YUYV"),
        ({"MJPG": 60, "YUYV": 30, "NV12": 30}, None, None, "NV12"),
        ({"MJPG": 60, "YUYV": 30}, 60, None, "MJPG"),
        ({"YUYV": 30000 / 1001, "MJPG": 30}, 30, None, "YUYV"),
        ({"YUYV": 5, "MJPG": 15}, 30, None, "MJPG"),
        ({"YUYV": 30, "MJPG": 30}, None, "MJPG", "MJPG"),
        ({"H264": 30, "GREY": 30}, None, None, "GREY"),
        ({"H264": 30}, None, None, "H264"),
        ({"WXYZ": 30, "RG10": 30}, None, None, "RG10"),
        ({"YUYV": None}, 60, None, "YUYV"),
        ({"WXYZ": 30}, None, None, None),
        ({"YUYV": 30}, None, "MJPG", None),
    ],
)
def test_the_cheapest_format_that_is_fast_enough_is_chosen(
    offered: dict[str, float | None],
    fps: float | None,
    fourcc: str | None,
    chosen: str | None,
) -> None:
    found = choose([Offer(*each) for each in offered.items()], fps, fourcc)
    assert (found.fourcc if found else None) == chosen


def test_size_and_rate_that_are_asked_for_are_set() -> None:
    device = Device(formats={"YUYV": [30.0, 15.0]})
    connection = connect(device, Wanted(8, 6, 15.0))
    assert (connection.facts.width, connection.facts.height) == (8, 6)
    assert connection.facts.fps == 15
    assert connection.facts.notes == ()
    connection.close()


def test_what_the_camera_does_instead_is_said() -> None:
    device = Device(sizes=((4, 2),))
    connection = connect(device, Wanted(1920, 1080, 60.0))
    assert connection.facts.notes == (
        "/dev/video0 gives 4 x 2 instead of 1920 x 1080",
        "/dev/video0 gives 30 fps instead of 60",
    )
    connection.close()


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (Device(formats={"WXYZ": [30.0]}), "does not offer a format that is known"),
        (Device(capabilities=abi.CAP_STREAMING), "gives no images: it is no camera"),
        (Device(capabilities=abi.CAP_CAPTURE), "cannot stream"),
        (Device(is_gone=True), "was unplugged"),
    ],
)
def test_what_is_no_camera_is_refused_and_closed(device: Device, says: str) -> None:
    with pytest.raises(CameraError, match=says):
        connect(device)
    assert device.opened == device.closed == 1


# --- images ---------------------------------------------------------------------------


def test_images_come_with_the_kernels_monotonic_stamps() -> None:
    connection = connect(Device())
    found = shots(connection, 40)
    times = [shot.captured_ns for shot in found]
    assert times[0] == 5 * SECOND_NS
    assert np.abs(np.diff(times) - 1e9 / 30).max() <= 2000  # microseconds
    assert all(shot.lost == 0 and not shot.damage and shot.is_key for shot in found)
    assert connection.facts.notes == ()
    connection.close()


def test_without_monotonic_stamps_the_arrival_counts_and_that_is_said() -> None:
    connection = connect(Device(flags=0))
    shots(connection, 2)
    assert connection.facts.notes == (
        "/dev/video0 has no monotonic stamps: the time of arrival is taken",
    )
    connection.close()


def test_numbers_that_are_missing_are_frames_that_were_lost() -> None:
    connection = connect(Device(skips=frozenset({2, 3, 7})))
    found = shots(connection, 6)
    assert [shot.lost for shot in found] == [0, 0, 2, 0, 0, 1]
    connection.close()


def test_images_that_the_driver_marks_or_leaves_empty_are_damaged() -> None:
    device = Device(flags_of={1: abi.FLAG_ERROR})
    full = device.image
    device.image = lambda sequence: b"" if sequence == 3 else full(sequence)
    connection = connect(device)
    found = shots(connection, 5)
    assert [bool(shot.damage) for shot in found] == [False, True, False, True, False]
    connection.close()


def test_an_image_stays_what_it_was_when_its_buffer_is_filled_again() -> None:
    connection = connect(Device())
    found = shots(connection, 12)
    levels = [
        int(connection.decoder.feed(n, shot.payload)[0].picture.planes[0][0, 0])
        for n, shot in enumerate(found)
    ]
    assert levels == list(range(12))
    connection.close()


def jpeg(sequence: int) -> bytes:
    """A grey JPEG."""
    context: Any = av.CodecContext.create("mjpeg", "w")
    context.width, context.height, context.pix_fmt = 16, 16, "yuvj420p"
    frame = VideoFrame(16, 16, "yuvj420p")
    for plane in frame.planes:
        plane.update(bytes([50 + sequence]) * plane.buffer_size)
    (packet,) = context.encode(frame)
    return bytes(packet)


def test_compressed_images_are_decoded_and_broken_ones_are_damaged() -> None:
    device = Device(formats={"MJPG": [30.0]}, size=(16, 16), code="MJPG")
    device.image = lambda n: jpeg(n) if n != 1 else jpeg(n)[:-60]
    connection = connect(device)
    found = shots(connection, 3)
    for number in (0, 2):
        (decoded,) = connection.decoder.feed(number, found[number].payload)
        assert decoded.tag == number
        assert decoded.picture.format is PixelFormat.I420
        assert decoded.picture.planes[0].mean() == pytest.approx(50 + number, abs=2)
    with suppress(DamagedError):
        assert all(d.is_damaged for d in connection.decoder.feed(1, found[1].payload))
    connection.close()


# --- what goes wrong ------------------------------------------------------------------


def test_a_device_that_is_unplugged_is_absent() -> None:
    device = Device()
    connection = connect(device)
    shots(connection, 3)
    device.is_gone = True
    with pytest.raises(CameraError, match="/dev/video0 was unplugged") as caught:
        shots(connection, 1)
    assert caught.value.is_absent
    connection.close()
    assert device.closed == 1


def test_single_input_errors_are_survived_and_many_in_a_row_are_not() -> None:
    device = Device(errors={1: errno.EIO, 2: errno.EIO, 5: errno.EAGAIN})
    connection = connect(device)
    assert len(shots(connection, 5)) == 5
    connection.close()
    connection = connect(Device(errors=dict.fromkeys(range(MOST_ERRORS), errno.EIO)))
    with pytest.raises(CameraError, match="/dev/video0: input/output error"):
        shots(connection, 1)
    connection.close()


def test_a_device_in_use_is_named_with_who_has_it() -> None:
    device = Device(busy=["cheese (process 4711)"])
    with pytest.raises(CameraError) as caught:
        connect(device)
    assert str(caught.value) == "/dev/video0 is in use by cheese (process 4711)"
    device.busy = []


def test_waiting_is_ended_by_an_interrupt_also_after_closing() -> None:
    connection = connect(Device())
    connection.interrupt()
    connection.close()
    connection.interrupt()


def test_twenty_connections_leave_no_descriptor() -> None:
    device = Device()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        connection = connect(device)
        shots(connection, 2)
        connection.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert device.opened == device.closed == 20


# --- the real kernel, as far as it can be asked without a camera ----------------------


def test_who_holds_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "node"
    path.touch()
    assert LinuxKernel().holders(str(path)) == []
    with path.open():
        (holder,) = LinuxKernel().holders(str(path))
    assert holder.endswith(f"(process {os.getpid()})")


def test_a_node_is_claimed_by_one_edgepipe_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "node"
    path.touch()
    claim = LinuxKernel().reserve(str(path))
    assert claim is not None
    assert LinuxKernel().reserve(str(path)) is None
    claim.close()
    again = LinuxKernel().reserve(str(path))
    assert again is not None
    again.close()


def test_waiting_ends_with_an_image_a_wake_or_the_time() -> None:
    kernel = LinuxKernel()
    image, image_in = os.pipe()
    wake, wake_in = os.pipe()
    try:
        assert not kernel.wait(image, wake, 0)
        os.write(wake_in, b"x")
        assert not kernel.wait(image, wake, 60)
        os.write(image_in, b"x")
        assert kernel.wait(image, wake, 60)
    finally:
        for fd in (image, image_in, wake, wake_in):
            os.close(fd)


def test_memory_of_a_device_is_mapped(tmp_path: Path) -> None:
    kernel = LinuxKernel()
    path = tmp_path / "memory"
    path.write_bytes(b"image" + bytes(4091))
    fd = kernel.open(str(path))
    memory = kernel.map(fd, 4096, 0)
    assert bytes(memoryview(memory)[:5]) == b"image"
    kernel.unmap(memory)
    kernel.close(fd)


def test_a_file_that_is_no_camera_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    clock = ManualClock()
    with pytest.raises(CameraError, match="file is no camera"):
        V4l2Camera(str(path), Wanted(), LinuxKernel(), clock).connect()
    with pytest.raises(CameraError, match="nowhere is not there") as caught:
        V4l2Camera("/dev/nowhere", Wanted(), LinuxKernel(), clock).connect()
    assert caught.value.is_absent
    assert len(LinuxKernel().holders(str(path))) == 0


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("v4l2:", "expected v4l2:///dev/video0 or v4l2:NAME"),
        ("v4l2:a/b", "expected v4l2:///dev/video0 or v4l2:NAME"),
        ("v4l2:///dev/video0?width=big", "width: expected a whole number, got 'big'"),
        ("v4l2:///dev/video0?height=0", "height: 0 is not within 1 .. 16384"),
        ("v4l2:///dev/video0?speed=1", "unknown key 'speed' (known: width, height"),
        ("v4l2:///dev/video0?width=1&width=2", "width is given twice"),
    ],
)
def test_a_wrong_address_is_refused(uri: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(uri)
    assert says in str(caught.value)


Opened = Callable[[str], str]


@pytest.mark.parametrize(
    ("uri", "waits_for"),
    [
        ("v4l2:///dev/video7", "/dev/video7"),
        ("v4l2:/dev/video7", "/dev/video7"),
        ("/dev/video7?width=640&height=480", "/dev/video7"),
        ("/dev/v4l/by-path/pci-0000:00:14.0-usb", "/dev/v4l/by-path/pci-0000:00:14.0-"),
        ("v4l2:usb-A_Cam_0001-video-index0", "/dev/v4l/by-id/usb-A_Cam_0001-video-ind"),
        (
            "v4l2:platform-x-usb-0:1.3:1.0-video-index0",
            "/dev/v4l/by-path/platform-x-us",
        ),
    ],
)
def test_every_way_to_name_a_device_leads_to_it(uri: str, waits_for: str) -> None:
    from edgepipe.pipeline.source import EventKind, SourceEvent

    source = open_source(uri)
    try:
        while isinstance(item := source.next_arrival(), SourceEvent):
            if item.kind is EventKind.BACKING_OFF:
                break
        assert isinstance(item, SourceEvent)
        assert item.detail.startswith(waits_for)
        assert "is not there" in item.detail
    finally:
        source.close()
