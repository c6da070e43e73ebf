"""The calls of Linux that a V4L2 camera needs: the boundary at which tests stand in."""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

Memory = Any
"""Anything with the buffer protocol."""


class Kernel(Protocol):
    """What is asked of the operating system. Errors are OSErrors with their numbers."""

    def resolve(self, path: str) -> str:
        """The device node that a path leads to at this moment."""
        ...

    def open(self, node: str) -> int:
        """Open a node for reading and writing without waiting."""
        ...

    def close(self, fd: int) -> None:
        """Close it."""
        ...

    def ioctl(self, fd: int, request: int, argument: ctypes.Structure) -> None:
        """Call the driver, which fills the argument in."""
        ...

    def stream(self, fd: int, request: int) -> None:
        """Switch streaming of captured images on or off."""
        ...

    def map(self, fd: int, length: int, offset: int) -> Memory:
        """A buffer's memory."""
        ...

    def unmap(self, memory: Memory) -> None:
        """Let go of it."""
        ...

    def wait(self, fd: int, wake_fd: int, timeout_s: float) -> bool:
        """Wait until there is an image, an error, or a byte to wake up for.

        Returns whether it is worth asking for an image.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether the path leads to a device."""
        ...

    def holders(self, node: str) -> list[str]:
        """Who has the node open: ``name (process 123)``, as far as can be seen."""
        ...

    def reserve(self, node: str) -> socket.socket | None:
        """Claim a node among all processes of edgepipe; None: another has it."""
        ...


class LinuxKernel:
    """The real ones."""

    def resolve(self, path: str) -> str:
        """The device node that a path leads to at this moment."""
        return os.path.realpath(path, strict=True)

    def open(self, node: str) -> int:
        """Open a node for reading and writing without waiting."""
        return os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        """Close it."""
        os.close(fd)

    def ioctl(self, fd: int, request: int, argument: ctypes.Structure) -> None:
        """Call the driver, which fills the argument in."""
        fcntl.ioctl(fd, request, argument, True)

    def stream(self, fd: int, request: int) -> None:
        """Switch streaming of captured images on or off."""
        fcntl.ioctl(fd, request, ctypes.c_int(1))

    def map(self, fd: int, length: int, offset: int) -> Memory:
        """A buffer's memory."""
        access = mmap.PROT_READ | mmap.PROT_WRITE
        return mmap.mmap(fd, length, mmap.MAP_SHARED, access, offset=offset)

    def unmap(self, memory: Memory) -> None:
        """Let go of it."""
        memory.close()

    def wait(self, fd: int, wake_fd: int, timeout_s: float) -> bool:
        """Wait until there is an image, an error, or a byte to wake up for."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(wake_fd, select.POLLIN)
        return any(ready == fd for ready, _ in poll.poll(timeout_s * 1000))

    def exists(self, path: str) -> bool:
        """Whether the path leads to a device."""
        return os.path.exists(path)

    def holders(self, node: str) -> list[str]:
        """Who has the node open, as far as can be seen."""
        return [f"{name} (process {pid})" for pid, name in _openers(node)]

    def reserve(self, node: str) -> socket.socket | None:
        """Claim a node among all processes of edgepipe; None: another has it.

        The claim is a name that the kernel forgets with the process, however it ends.
        """
        name = f"\0edgepipe-camera-{os.stat(node).st_rdev:x}-{node}"
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(name)
        except OSError as error:
            claim.close()
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        return claim


def _openers(path: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        # It may have ended meanwhile, or belong to somebody else.
        with suppress(OSError):
            if any(_leads_to(each, path) for each in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text(errors="replace").strip()
                yield int(folder.name), name


def _leads_to(link: Path, path: str) -> bool:
    try:
        return os.readlink(link) == path
    except OSError:
        return False
