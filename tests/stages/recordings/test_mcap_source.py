"""MCAP files of every make as sources."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, IndexType

from edgepipe.errors import InputError
from edgepipe.pipeline.source import Arrival, EventKind, Reducing
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.sources.open import open_source

from . import messages as make
from .reading import read

SECOND = make.SECOND


def greys_of(path: Path, query: str = "") -> list[int | None]:
    return read(open_source(f"mcap:{path}{query}"))[1]


TEN = [20 + 5 * k for k in range(10)]


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    """Ten PNGs in Protobuf."""
    content = make.stills(10, make.proto_image)
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    return make.write_mcap(tmp_path / "ten.mcap", topic)


@pytest.mark.parametrize(
    ("schema", "encoding", "message"),
    [
        ("foxglove.CompressedImage", "protobuf", make.proto_image),
        ("foxglove.CompressedImage", "json", make.json_image),
        ("foxglove_msgs/msg/CompressedImage", "cdr", make.ros_foxglove),
        ("sensor_msgs/msg/CompressedImage", "cdr", make.ros_compressed),
        (
            "sensor_msgs/CompressedImage",
            "ros1",
            make.ros1_compressed,
        ),
    ],
)
def test_compressed_images_are_read_in_every_encoding(
    tmp_path: Path, schema: str, encoding: str, message: make.Message
) -> None:
    topic = ("/camera", schema, encoding, make.stills(10, message))
    path = make.write_mcap(tmp_path / "a.mcap", topic)
    source = open_source(str(path))
    times, greys, events = read(source)
    assert greys == TEN
    assert times == [k * SECOND // 10 for k in range(10)]
    assert events == []
    assert source.end_state == ("ended", "")
    assert (source.info.width, source.info.height, source.info.fps) == (64, 48, 10)
    assert source.info.codec == "image"


@pytest.mark.parametrize("compression", list(CompressionType))
@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"chunk_size": 300},
        {"use_chunking": False},
        {"index_types": IndexType.NONE},
        {"repeat_channels": False},
        {"use_statistics": False},
        {"finish": False, "chunk_size": 1},
    ],
)
def test_every_layout_of_a_file_is_read(
    tmp_path: Path, compression: CompressionType, layout: dict[str, Any]
) -> None:
    content = make.stills(10, make.proto_image)
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    path = tmp_path / "a.mcap"
    make.write_mcap(path, topic, compression=compression, **layout)
    assert greys_of(path) == TEN


BLUE = (200, 40, 20)
"""Blue, green, red."""
RAW = {
    "bgr8": bytes(BLUE) * 64,
    "8UC3": bytes(BLUE) * 64,
    "rgb8": bytes(BLUE[::-1]) * 64,
    "bgra8": bytes((*BLUE, 9)) * 64,
    "rgba8": bytes((*BLUE[::-1], 9)) * 64,
    "bgr16": np.repeat(np.array([BLUE], "<u2") * 257, 64, 0).tobytes(),
    "rgb16": np.repeat(np.array([BLUE[::-1]], "<u2") * 257, 64, 0).tobytes(),
}


@pytest.mark.parametrize("encoding", RAW)
def test_raw_colours_come_out_as_they_are(tmp_path: Path, encoding: str) -> None:
    row = RAW[encoding] + b"\x55" * 7  # rows have padding
    message = make.proto_raw(SECOND, encoding, (64, 48), len(row), row * 48)
    topic = ("/raw", "foxglove.RawImage", "protobuf", [(SECOND, message)])
    source = open_source(str(make.write_mcap(tmp_path / "a.mcap", topic)))
    source.next_arrival()
    image = to_bgr(source.decode(0))
    assert image.shape == (48, 64, 3)
    assert np.all(image == BLUE)
    assert source.info.codec == "raw"
    source.close()


@pytest.mark.parametrize(
    ("encoding", "pixels", "big"),
    [
        ("mono8", b"\x64", False),
        ("8UC1", b"\x64", False),
        ("mono16", b"\x64\x64", False),
        ("16UC1", b"\x64\x64", True),
        ("mono16", b"\x64\x00", True),
        ("yuyv", bytes((102, 128)), False),
        ("yuv422_yuy2", bytes((102, 128)), False),
        ("uyvy", bytes((128, 102)), False),
        ("yuv422", bytes((128, 102)), False),
        ("bayer_rggb8", b"\x64", False),
        ("bayer_bggr8", b"\x64", False),
        ("bayer_gbrg8", b"\x64", False),
        ("bayer_grbg8", b"\x64", False),
        ("bayer_grbg16", b"\x64\x64", False),
    ],
)
def test_raw_greys_of_every_encoding_are_100(
    tmp_path: Path, encoding: str, pixels: bytes, big: bool
) -> None:
    row = pixels * 64
    data = make.ros_image(SECOND, encoding, (64, 48), len(row), row * 48, big=big)
    topic = ("/raw", "sensor_msgs/msg/Image", "cdr", [(SECOND, data)])
    path = make.write_mcap(tmp_path / "a.mcap", topic)
    (grey,) = greys_of(path)
    assert grey is not None
    assert abs(grey - 100) <= 1


def test_a_bayer_picture_has_the_right_colours(tmp_path: Path) -> None:
    """Red at the top left of each four, blue at the bottom right."""
    tile = np.tile(np.array([[200, 0], [0, 0]], np.uint8), (24, 32))
    data = make.ros_image(SECOND, "bayer_rggb8", (64, 48), 64, tile.tobytes())
    topic = ("/raw", "sensor_msgs/msg/Image", "cdr", [(SECOND, data)])
    source = open_source(str(make.write_mcap(tmp_path / "a.mcap", topic)))
    source.next_arrival()
    blue, _, red = to_bgr(source.decode(0))[8:40, 8:56].reshape(-1, 3).mean(axis=0)
    assert (round(float(blue)), round(float(red))) == (0, 200)
    source.close()


@pytest.mark.parametrize(
    ("encoding", "step", "size", "words"),
    [
        ("32FC1", 256, (64, 48), "encoding '32FC1'"),
        ("bgr8", 10, (64, 48), "bytes are too few"),
        ("bgr8", 192, (64, 4800), "bytes are too few"),
        ("bgr8", 192, (0, 48), "0 x 48 pixels"),
    ],
)
def test_an_image_that_is_none_is_refused_in_one_line(
    tmp_path: Path, encoding: str, step: int, size: tuple[int, int], words: str
) -> None:
    data = make.ros_image(SECOND, encoding, size, step, bytes(192 * 48))
    topic = ("/raw", "sensor_msgs/msg/Image", "cdr", [(SECOND, data)])
    path = make.write_mcap(tmp_path / "a.mcap", topic)
    with pytest.raises(InputError, match=words):
        open_source(str(path))


def two_topics(path: Path) -> Path:
    left = ("/left", "foxglove.CompressedImage", "protobuf")
    right = ("/right", "sensor_msgs/msg/CompressedImage", "cdr")
    text = ("/log", "rcl_interfaces/msg/Log", "cdr", [(SECOND, b"\0\1\0\0")])
    return make.write_mcap(
        path,
        (*left, make.stills(10, make.proto_image)),
        (*right, make.stills(4, make.ros_compressed)),
        text,
        chunk_size=500,
    )


def test_the_topic_is_chosen_by_name(tmp_path: Path) -> None:
    path = two_topics(tmp_path / "two.mcap")
    assert greys_of(path, "?topic=/left") == TEN
    assert greys_of(path, "?topic=%2Fright") == TEN[:4]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", r"several topics with images, add \?topic= and one of /left, /right"),
        ("?topic=/up", r"no topic /up \(with images: /left, /right\)"),
        ("?topic=/log", "/log holds no images: rcl_interfaces/msg/Log as cdr"),
        ("?tropic=/left", "unknown key 'tropic'"),
        ("?topic=/left&topic=/left", "given twice"),
        ("?topic=/left&time=now", "expected header or log, got 'now'"),
        ("?topic=/left&zero=1s", "expected nanoseconds, got '1s'"),
    ],
)
def test_a_topic_that_is_not_clear_is_an_error_that_helps(
    tmp_path: Path, query: str, words: str
) -> None:
    path = two_topics(tmp_path / "two.mcap")
    with pytest.raises(InputError, match=words):
        open_source(f"mcap:{path}{query}")


@pytest.mark.parametrize("content", [b"", b"RIFF" * 9, b"\x89MCAP0\r\n"])
def test_a_file_that_is_no_mcap_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.mcap: "):
        open_source(str(path))
    with pytest.raises(InputError, match="no such file"):
        open_source(f"mcap:{tmp_path}/b.mcap")


# --- time -----------------------------------------------------------------------------


def test_header_stamps_are_used_where_they_rise_and_it_is_said(ten: Path) -> None:
    source = open_source(str(ten))
    assert "times are those of the message headers" in source.warnings
    source.close()


def test_log_times_are_used_where_headers_have_none(tmp_path: Path) -> None:
    zeros = [
        (SECOND + k * 40_000_000, make.proto_image(0, "png", make.png(make.flat(20))))
        for k in range(5)
    ]
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", zeros)
    source = open_source(str(make.write_mcap(tmp_path / "a.mcap", topic)))
    assert "times are those of the recording" in source.warnings[0]
    assert read(source)[0] == [k * 40_000_000 for k in range(5)]


def test_log_times_can_be_asked_for(tmp_path: Path) -> None:
    late = [
        (SECOND * (k + 1) + k * 1000, data)
        for k, (_, data) in enumerate(make.stills(3, make.proto_image))
    ]
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", late)
    path = make.write_mcap(tmp_path / "a.mcap", topic)
    source = open_source(f"mcap:{path}?time=log")
    assert read(source)[0] == [k * (SECOND + 1000) for k in range(3)]


def test_a_gap_and_a_stamp_that_came_twice_are_told(tmp_path: Path) -> None:
    stamps = [0, 1, 2, 3, 3, 4, 5, 60, 61]
    content = [
        (
            SECOND + k,
            make.proto_image(SECOND + s * 10**8, "png", make.png(make.flat(9))),
        )
        for k, s in enumerate(stamps)
    ]
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    source = open_source(str(make.write_mcap(tmp_path / "a.mcap", topic)))
    times, _, events = read(source)
    assert events == [EventKind.DUPLICATE, EventKind.GAP]
    assert all(b > a for a, b in pairwise(t for t in times if t is not None))


def test_media_time_can_count_from_a_moment_of_several_streams(ten: Path) -> None:
    source = open_source(f"mcap:{ten}?zero={SECOND // 2}")
    assert read(source)[0][0] == SECOND // 2


def test_a_loop_goes_on_counting(ten: Path) -> None:
    source = open_source(str(ten), loop=True)
    found = [source.next_arrival() for _ in range(25)]
    arrivals = [each for each in found if isinstance(each, Arrival)]
    assert [a.index for a in arrivals] == list(range(len(arrivals)))
    assert arrivals[11].pts_ns == 1_100_000_000
    assert source.decode(11).width == 64
    source.close()


# --- damage ---------------------------------------------------------------------------


def test_a_file_that_is_cut_anywhere_gives_what_is_whole(
    ten: Path, tmp_path: Path
) -> None:
    content = make.stills(10, make.proto_image)
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    whole = make.write_mcap(tmp_path / "whole.mcap", topic, chunk_size=1).read_bytes()
    cut = tmp_path / "cut.mcap"
    known = [0]
    for end in range(60, len(whole), 23):
        cut.write_bytes(whole[:end])
        try:
            source = open_source(str(cut))
        except InputError:
            assert known == [0]
            continue
        greys = read(source)[1]
        assert greys == TEN[: len(greys)]
        assert len(greys) >= known[-1]
        if end < len(whole) * 0.6:
            assert source.end_state[0] == "truncated"
        known.append(len(greys))
        source.close()
    assert known[-1] == 10


def test_a_chunk_with_a_wrong_checksum_is_damage_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    content = make.stills(10, make.proto_image)
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    path = tmp_path / "a.mcap"
    make.write_mcap(path, topic, chunk_size=1, compression=CompressionType.NONE)
    data = bytearray(path.read_bytes())
    third = make.png(make.flat(30))
    data[data.index(third) + len(third) // 2] ^= 1
    path.write_bytes(data)
    _, greys, events = read(open_source(str(path)))
    assert greys == [g for g in TEN if g != 30]
    assert events == [EventKind.DAMAGE]


def test_a_message_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    content = make.stills(4, make.proto_image)
    content[2] = (content[2][0], content[2][1][:20])
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    path = make.write_mcap(tmp_path / "a.mcap", topic)
    _, greys, events = read(open_source(str(path)))
    assert greys == [20, 25, 35]
    assert events == [EventKind.DAMAGE]


# --- video ----------------------------------------------------------------------------


OPTIONS = {
    "libvpx-vp9": {"lag-in-frames": "0", "cpu-used": "8"},
    "libx264": {"preset": "ultrafast", "tune": "zerolatency"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:bframes=0"},
    "libsvtav1": {"preset": "10", "crf": "5", "svtav1-params": "pred-struct=1"},
}


def encoded(name: str, count: int = 10) -> list[bytes]:
    """Packets of greys 20, 25 ..., a key frame each four."""
    codec = av.CodecContext.create(name, "w")
    assert isinstance(codec, VideoCodecContext)
    codec.width, codec.height, codec.pix_fmt = 64, 48, "yuv420p"
    codec.time_base, codec.framerate = Fraction(1, 10), Fraction(10)
    codec.gop_size, codec.max_b_frames = 4, 0
    codec.bit_rate = 0 if name == "libsvtav1" else 4_000_000
    codec.options = OPTIONS.get(name, {})
    packets: list[bytes] = []
    encoder: Any = codec
    for k in range(count + 1):
        frame = None
        if k < count:
            image = make.flat(20 + 5 * k)
            frame = VideoFrame.from_ndarray(image, format="bgr24").reformat(
                format="yuv420p"
            )
            frame.pts = k
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    return packets


CODECS = [
    ("libx264", "h264"),
    ("libx265", "h265"),
    ("libvpx-vp9", "vp9"),
    ("libsvtav1", "av1"),
]


def video(path: Path, encoder: str, format_: str, leave_out: range = range(0)) -> Path:
    content = [
        (SECOND + k * 10**8, make.proto_video(SECOND + k * 10**8, format_, packet))
        for k, packet in enumerate(encoded(encoder))
        if k not in leave_out
    ]
    topic = ("/video", "foxglove.CompressedVideo", "protobuf", content)
    return make.write_mcap(path, topic)


@pytest.mark.parametrize(("encoder", "format_"), CODECS)
def test_compressed_video_is_decoded(
    tmp_path: Path, encoder: str, format_: str
) -> None:
    source = open_source(str(video(tmp_path / "a.mcap", encoder, format_)))
    times, greys, events = read(source)
    assert times == [k * 10**8 for k in range(10)]
    assert [abs((g or 0) - t) <= 3 for g, t in zip(greys, TEN, strict=True)] == [
        True
    ] * 10
    assert source.info.codec == {"h265": "hevc"}.get(format_, format_)
    assert events == []


def test_frames_before_the_first_key_frame_are_damaged(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mcap", "libx264", "h264", leave_out=range(2))
    _, greys, _ = read(open_source(str(path)))
    assert greys[:2] == [None, None]
    assert all(g is not None for g in greys[2:])


def test_a_frame_that_is_skipped_is_not_needed_after_a_key_frame(
    tmp_path: Path,
) -> None:
    source = open_source(str(video(tmp_path / "a.mcap", "libx264", "h264")))
    for _ in range(7):
        source.next_arrival()
    grey = float(np.mean(to_bgr(source.decode(6))))
    assert abs(grey - TEN[6]) <= 3
    source.close()


def test_jpegs_are_decoded_no_larger_than_needed(tmp_path: Path) -> None:
    pytest.importorskip("simplejpeg")
    image = make.jpeg(make.flat(100, 640, 480))
    content = [
        (SECOND + k, make.proto_image(SECOND + k * 10**8, "jpeg", image))
        for k in range(2)
    ]
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    source = open_source(str(make.write_mcap(tmp_path / "a.mcap", topic)))
    assert isinstance(source, Reducing)
    source.reduce_to(lambda width, height: (width // 4, height // 4))
    source.next_arrival()
    picture = source.decode(0)
    assert (picture.width, picture.height) == (640, 480)
    assert picture.planes[0].shape == (120, 160, 3)
    source.close()


@settings(deadline=None)  # it writes files
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=9)),
        min_size=1,
        max_size=6,
    ),
    chunked=st.booleans(),
)
def test_a_file_with_any_bytes_overwritten_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, bytes]],
    chunked: bool,
) -> None:
    path = tmp_path_factory.mktemp("f") / "a.mcap"
    content = make.stills(3, make.proto_image)
    topic = ("/camera", "foxglove.CompressedImage", "protobuf", content)
    make.write_mcap(path, topic, chunk_size=200, use_chunking=chunked)
    data = bytearray(path.read_bytes())
    for place, new in changes:
        at = place % len(data)
        data[at : at + len(new)] = new
    path.write_bytes(data)
    try:
        source = open_source(str(path))
    except InputError:
        return
    read(source)
