"""What this machine's GPU and driver are, asked of the driver itself.

CUDA's driver library comes with every driver, on Jetson boards too, and needs no
package.
"""

import ctypes
from dataclasses import dataclass

_LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""
_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first GPU, as the driver describes it."""

    device: str
    """``NVIDIA H200``."""
    sm: str
    """Compute capability without the point, ``90``."""
    cuda: str
    """Newest CUDA that the driver serves, ``13.0``."""


def gpu(library: str = _LIBRARY) -> Gpu | str:
    """The first GPU, or why there is none."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        return "no NVIDIA driver is installed"
    if cuda.cuInit(0) != 0:
        return "the NVIDIA driver finds no GPU"
    version, device = ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    major, minor = ctypes.c_int(), ctypes.c_int()
    failed = (
        cuda.cuDriverGetVersion(ctypes.byref(version))
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDeviceGetName(name, _NAME_BYTES, device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    )
    if failed:
        return f"the NVIDIA driver answers with error {failed}"
    return Gpu(
        name.value.decode(errors="replace"),
        f"{major.value}{minor.value}",
        f"{version.value // 1000}.{version.value % 1000 // 10}",
    )
