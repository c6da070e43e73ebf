"""Whether a file's packets can be kept without the file, found out by trying."""

from pathlib import Path

import numpy as np
from av.error import FFmpegError
from av.video.frame import VideoFrame

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.recordings.packet_codec import PacketCodec
from edgepipe.stages.sources.orientation import UPRIGHT
from edgepipe.stages.sources.packer import Packer
from edgepipe.stages.sources.pictures import orientation_of
from edgepipe.stages.sources.recording import Recording

_PACKETS = 250
"""Within which there must be a picture: ten seconds."""


def packer_of(path: Path, decode_threads: int) -> Packer | None:
    """What packs the file's packets; None if a decoder could not make do with them.

    Some codecs keep what they need in the container, and not all of it can be handed
    on. So the first picture is decoded both ways, and must come out the same.

    Raises:
        InputError: The file is not a video.
    """
    recording = Recording(path, decode_threads)
    try:
        frame, count = _first(recording)
        turn = UPRIGHT if frame is None else orientation_of(frame)
        packer = recording.packer(turn)
    finally:
        recording.close()
    if frame is None:
        return None
    again = Recording(path, decode_threads)
    try:
        alone = _first_alone(again, packer, decode_threads, count)
    except (FFmpegError, DamagedError, ValueError):
        alone = None
    finally:
        again.close()
    # What was tried with must not be what goes on: filters remember.
    return packer.renewed() if alone is not None and _same(frame, alone) else None


def _first(recording: Recording) -> tuple[VideoFrame | None, int]:
    """The first picture, and after how many packets it came."""
    packets = recording.packets()
    for count in range(1, _PACKETS + 1):
        packet = next(packets, None)
        try:
            frames = recording.decode(packet)
        except FFmpegError:
            frames = []
        if frames or packet is None:
            return next(iter(frames), None), count
    return None, _PACKETS


def _first_alone(
    recording: Recording, packer: Packer, threads: int, count: int
) -> VideoFrame | None:
    """The first shown picture, decoded from packets that were packed."""
    codec = PacketCodec(packer.format.codec, threads, packer.format.decoder)
    packets = recording.packets()
    hidden = 0
    for number in range(count + 1):
        packet = next(packets, None) if number < count else None
        if packet is None:
            frames = codec.decode(None)
        else:
            data = memoryview(packer.pack(packet))
            hidden += packet.is_discard
            stamp = number if packet.pts is None else packet.pts
            again = codec.packet(data, stamp, number, key=packet.is_keyframe)
            frames = codec.decode(again)
        while frames and hidden:
            frames, hidden = frames[1:], hidden - 1
        if frames:
            return frames[0]
    return None


def _same(a: VideoFrame, b: VideoFrame) -> bool:
    if (a.width, a.height, a.format.name) != (b.width, b.height, b.format.name):
        return False
    # Planes are as wide in memory as the decoder likes; the padding is of no interest.
    rows = min(a.planes[0].line_size, b.planes[0].line_size, a.width)
    first, second = (
        np.frombuffer(memoryview(each.planes[0]), np.uint8).reshape(
            -1, abs(each.planes[0].line_size)
        )[: each.height, :rows]
        for each in (a, b)
    )
    return bool(np.array_equal(first, second))
