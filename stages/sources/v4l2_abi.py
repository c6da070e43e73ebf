"""What Linux's video capture interface looks like in memory: ``linux/videodev2.h``.

A test compiles a few lines of C and compares every size and number.
"""

import ctypes
from typing import Any

CAPTURE = 1
"""V4L2_BUF_TYPE_VIDEO_CAPTURE."""
MMAP = 1
DISCRETE = 1

CAP_CAPTURE = 0x1
CAP_STREAMING = 0x04000000
CAP_DEVICE_CAPS = 0x80000000
CAP_TIMEPERFRAME = 0x1000
FLAG_KEYFRAME = 0x8
FLAG_ERROR = 0x40
FLAG_TIMESTAMP_MASK = 0xE000
FLAG_TIMESTAMP_MONOTONIC = 0x2000

Words = ctypes.c_uint32


class Capability(ctypes.Structure):
    """What a device is and can do."""

    _fields_ = (
        ("driver", ctypes.c_char * 16),
        ("card", ctypes.c_char * 32),
        ("bus_info", ctypes.c_char * 32),
        ("version", Words),
        ("capabilities", Words),
        ("device_caps", Words),
        ("reserved", Words * 3),
    )


class FormatDescription(ctypes.Structure):
    """One of the formats that a device offers."""

    _fields_ = (
        ("index", Words),
        ("type", Words),
        ("flags", Words),
        ("description", ctypes.c_char * 32),
        ("pixelformat", Words),
        ("mbus_code", Words),
        ("reserved", Words * 3),
    )


class Fraction(ctypes.Structure):
    """A time in seconds."""

    _fields_ = (("numerator", Words), ("denominator", Words))


class FrameSize(ctypes.Structure):
    """One of the sizes of a format; of a range, ``width`` and ``height`` are lowest."""

    _fields_ = (
        ("index", Words),
        ("pixel_format", Words),
        ("type", Words),
        ("numbers", Words * 6),
        ("reserved", Words * 2),
    )


class FrameInterval(ctypes.Structure):
    """One of the times between frames of a size; or a range of them."""

    _fields_ = (
        ("index", Words),
        ("pixel_format", Words),
        ("width", Words),
        ("height", Words),
        ("type", Words),
        ("shortest", Fraction),
        ("longest", Fraction),
        ("step", Fraction),
        ("reserved", Words * 2),
    )


class PixelLayout(ctypes.Structure):
    """Size and format of the images."""

    _fields_ = (
        ("width", Words),
        ("height", Words),
        ("pixelformat", Words),
        ("field", Words),
        ("bytesperline", Words),
        ("sizeimage", Words),
        ("colorspace", Words),
        ("priv", Words),
        ("flags", Words),
        ("ycbcr_enc", Words),
        ("quantization", Words),
        ("xfer_func", Words),
    )


class _Layouts(ctypes.Union):
    # Other members hold pointers, and the whole is aligned like them.
    _fields_ = (
        ("pix", PixelLayout),
        ("raw_data", ctypes.c_uint8 * 200),
        ("aligned", ctypes.c_void_p),
    )


class Format(ctypes.Structure):
    """The format that is set, or to be set."""

    _fields_ = (("type", Words), ("fmt", _Layouts))


class CaptureParameters(ctypes.Structure):
    """The rate, above all."""

    _fields_ = (
        ("capability", Words),
        ("capturemode", Words),
        ("timeperframe", Fraction),
        ("extendedmode", Words),
        ("readbuffers", Words),
        ("reserved", Words * 4),
    )


class _Parameters(ctypes.Union):
    _fields_ = (("capture", CaptureParameters), ("raw_data", ctypes.c_uint8 * 200))


class StreamParameters(ctypes.Structure):
    """The rate that is set, or to be set."""

    _fields_ = (("type", Words), ("parm", _Parameters))


class RequestBuffers(ctypes.Structure):
    """How many buffers are wanted, and then how many there are."""

    _fields_ = (
        ("count", Words),
        ("type", Words),
        ("memory", Words),
        ("capabilities", Words),
        ("flags", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 3),
    )


class Timeval(ctypes.Structure):
    """Seconds and microseconds."""

    _fields_ = (("tv_sec", ctypes.c_long), ("tv_usec", ctypes.c_long))


class Timecode(ctypes.Structure):
    """Not used by cameras."""

    _fields_ = (
        ("type", Words),
        ("flags", Words),
        ("frames", ctypes.c_uint8),
        ("seconds", ctypes.c_uint8),
        ("minutes", ctypes.c_uint8),
        ("hours", ctypes.c_uint8),
        ("userbits", ctypes.c_uint8 * 4),
    )


class _Place(ctypes.Union):
    _fields_ = (
        ("offset", Words),
        ("userptr", ctypes.c_ulong),
        ("planes", ctypes.c_void_p),
        ("fd", ctypes.c_int32),
    )


class Buffer(ctypes.Structure):
    """One buffer, and what is known of the image in it."""

    _fields_ = (
        ("index", Words),
        ("type", Words),
        ("bytesused", Words),
        ("flags", Words),
        ("field", Words),
        ("timestamp", Timeval),
        ("timecode", Timecode),
        ("sequence", Words),
        ("memory", Words),
        ("m", _Place),
        ("length", Words),
        ("reserved2", Words),
        ("request_fd", ctypes.c_int32),
    )


def _request(direction: int, number: int, kind: type[Any]) -> int:
    """The number of an ioctl, as ``_IOC`` makes it (asm-generic/ioctl.h)."""
    return direction << 30 | ctypes.sizeof(kind) << 16 | ord("V") << 8 | number


_WRITE, _READ, _BOTH = 1, 2, 3
QUERYCAP = _request(_READ, 0, Capability)
ENUM_FMT = _request(_BOTH, 2, FormatDescription)
G_FMT = _request(_BOTH, 4, Format)
S_FMT = _request(_BOTH, 5, Format)
REQBUFS = _request(_BOTH, 8, RequestBuffers)
QUERYBUF = _request(_BOTH, 9, Buffer)
QBUF = _request(_BOTH, 15, Buffer)
DQBUF = _request(_BOTH, 17, Buffer)
STREAMON = _request(_WRITE, 18, ctypes.c_int)
STREAMOFF = _request(_WRITE, 19, ctypes.c_int)
G_PARM = _request(_BOTH, 21, StreamParameters)
S_PARM = _request(_BOTH, 22, StreamParameters)
ENUM_FRAMESIZES = _request(_BOTH, 74, FrameSize)
ENUM_FRAMEINTERVALS = _request(_BOTH, 75, FrameInterval)


def code(fourcc: str) -> int:
    """The number of a four-character code."""
    return int.from_bytes(fourcc.encode("ascii"), "little")


def fourcc(number: int) -> str:
    """The four characters of a number."""
    return (number & 0x7FFFFFFF).to_bytes(4, "little").decode("latin-1")
