"""Chains of GStreamer's elements, with its test source where a camera would be.

They need GStreamer's Python bindings for this very Python; the system's are borrowed
where its version is the same.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edgepipe
from edgepipe.errors import InputError
from edgepipe.pipeline.frame import PixelFormat
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources import gst_decoder, gstreamer
from edgepipe.stages.sources.camera import CameraError
from edgepipe.stages.sources.gst_camera import GstCamera, GstConnection, csi
from edgepipe.stages.sources.gst_decoder import GstDecoder, elements, jetson
from edgepipe.stages.sources.gstreamer import BrokenError, Chain, Element, MissingError
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.open_live import LiveOptions
from edgepipe.telemetry.clock import MonotonicClock

SYSTEMS = Path("/usr/lib/python3/dist-packages/gi")


@pytest.fixture(scope="module")
def gst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """GStreamer with its bindings, and nothing else of the system's packages."""
    tag = f"cpython-{sys.version_info.major}{sys.version_info.minor}-"
    borrowed = tmp_path_factory.mktemp("gi")
    if any(tag in each.name for each in SYSTEMS.glob("_gi.*.so")):
        (borrowed / "gi").symlink_to(SYSTEMS)
        sys.path.append(str(borrowed))
    why = gstreamer.why_not(["videotestsrc", "h264parse", "x264enc", "avdec_h264"])
    if why:
        sys.path[:] = [each for each in sys.path if each != str(borrowed)]
        pytest.skip(why)
    yield
    sys.path[:] = [each for each in sys.path if each != str(borrowed)]


def picture_of(format_: str, width: int = 322, pattern: int = 0) -> Element:
    """A live test picture: 0 are bars."""
    caps = f"video/x-raw,format={format_},width={width},height=240,framerate=30/1"
    return Element("videotestsrc", {"is-live": True, "pattern": pattern}, caps)


@pytest.mark.parametrize(
    ("format_", "kind"),
    [
        ("NV12", PixelFormat.NV12),
        ("I420", PixelFormat.I420),
        ("YUY2", PixelFormat.NV16),
        ("GRAY8", PixelFormat.GRAY),
        ("BGR", PixelFormat.BGR),
    ],
)
def test_pictures_come_with_monotonic_capture_times(
    gst: None, format_: str, kind: PixelFormat
) -> None:
    clock = MonotonicClock()
    began_ns = clock.now_ns()
    camera = GstCamera((picture_of(format_),), 30.0, 60.0, clock)
    connection = camera.connect()
    try:
        assert (connection.facts.width, connection.facts.height) == (322, 240)
        assert connection.facts.notes == ()
        times = list[int]()
        while len(times) < 4:
            shot = connection.read()
            if shot is None:
                continue
            times.append(shot.captured_ns)
            (decoded,) = connection.decoder.feed(7, shot.payload)
            assert decoded.tag == 7
            assert decoded.picture.format is kind
            first = decoded.picture.planes[0]
            assert first.shape[:2] == (240, 322)
            # The bars begin with white and end, above the last third, with blue.
            assert first[10, 5].max() > 180
            assert first[10, 300].min() < 60
        assert times == sorted(times)
        assert began_ns < times[0] < times[-1] < clock.now_ns()
    finally:
        connection.close()


def test_a_chain_of_a_missing_element_is_refused_by_its_name(gst: None) -> None:
    with pytest.raises(MissingError, match="has no nosuchsrc"):
        Chain((Element("nosuchsrc"),))
    camera = GstCamera((Element("nosuchsrc"),), 30.0, 1.0, MonotonicClock())
    with pytest.raises(CameraError, match="has no nosuchsrc"):
        camera.connect()


def test_elements_that_do_not_fit_are_refused(gst: None) -> None:
    raw, encoded = picture_of("NV12"), Element("videotestsrc", {}, "video/x-h264")
    with pytest.raises(BrokenError, match="does not fit"):
        Chain((raw, encoded))


def read_on(connection: GstConnection) -> None:
    while True:
        connection.read()


def test_an_end_and_a_failure_are_told(gst: None) -> None:
    few = Element("videotestsrc", {"num-buffers": 2}, "video/x-raw,format=NV12")
    camera = GstCamera((few,), 30.0, 60.0, MonotonicClock())
    connection = camera.connect()
    with pytest.raises(CameraError, match="has ended"):
        read_on(connection)
    connection.close()
    failing = (picture_of("NV12"), Element("identity", {"error-after": 2}))
    connection = GstCamera(failing, 30.0, 60.0, MonotonicClock()).connect()
    with pytest.raises(CameraError, match=r"identity\d*: Failed"):
        read_on(connection)
    connection.close()


def test_a_camera_that_gives_nothing_is_given_up_and_can_be_interrupted(
    gst: None,
) -> None:
    silent = (picture_of("NV12"), Element("valve", {"drop": True}))
    with pytest.raises(CameraError, match=r"no picture for 0\.2 s"):
        GstCamera(silent, 30.0, 0.2, MonotonicClock()).connect()
    camera = GstCamera(silent, 30.0, 3600.0, MonotonicClock())
    camera.interrupt()
    with pytest.raises(CameraError):
        camera.connect()


def test_twenty_connections_leave_no_thread(gst: None) -> None:
    before = None
    for _ in range(20):
        connection = GstCamera(
            (picture_of("NV12"),), 30.0, 60.0, MonotonicClock()
        ).connect()
        connection.close()
        del connection
        gc.collect()
        count = len(list(Path("/proc/self/task").iterdir()))
        before = count if before is None else max(before, count)
    assert len(list(Path("/proc/self/task").iterdir())) <= (before or 0)
    assert threading.active_count() < 20


# --- decoding -------------------------------------------------------------------------

SOFTWARE = (Element("avdec_h264", {"max-threads": 1}),)
"""Stands where the hardware would."""


def encoded(count: int) -> list[bytes]:
    """Access units whose pictures get brighter."""
    chain = Chain(
        (
            Element(
                "videotestsrc",
                {"num-buffers": count, "pattern": 18},  # a ball
                "video/x-raw,format=I420,width=64,height=48,framerate=30/1",
            ),
            Element(
                "x264enc",
                {"bframes": 0, "key-int-max": 5, "rc-lookahead": 0, "threads": 1},
                "video/x-h264,stream-format=byte-stream,alignment=au",
            ),
        ),
        samples=count,
        keeps=True,
    )
    chain.start()
    units = list[bytes]()
    try:
        while True:
            sample = chain.pull()
            if sample is not None:
                units.append(sample.data)
    except BrokenError:
        chain.close()
    assert len(units) == count
    return units


def test_each_packet_gives_its_own_picture(gst: None) -> None:
    chain = Chain(elements("h264", SOFTWARE), samples=8, keeps=True)
    decoder = GstDecoder(chain)
    for number, unit in enumerate(encoded(12)):
        (decoded,) = decoder.feed(100 + number, unit)
        assert decoded.tag == 100 + number
        assert decoded.picture.format is PixelFormat.I420
        planes = decoded.picture.planes
        assert [plane.shape for plane in planes] == [(48, 64), (24, 32), (24, 32)]
        assert np.ptp(planes[0]) > 100
    decoder.forget()
    del decoder
    gc.collect()
    with pytest.raises(BrokenError):
        chain.push(b"", 0)


def test_a_packet_without_a_picture_is_damaged(
    gst: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gst_decoder, "WAIT_NS", 1_000_000)
    decoder = GstDecoder(Chain(elements("h264", SOFTWARE), samples=8, keeps=True))
    with pytest.raises(DamagedError):
        decoder.feed(0, b"\0\0\0\1\x09\x10" + bytes(50))


def test_without_a_jetson_it_is_said_what_is_missing(gst: None) -> None:
    decoder, words = jetson("h264", b"")
    assert decoder is None
    assert words == (
        "software (this machine's GStreamer has no nvv4l2decoder and no nvvidconv)"
    )
    with pytest.raises(InputError, match=r"nvdec: .* nvv4l2decoder"):
        open_source("rtsp://h/1", live=LiveOptions(decoder="nvdec"))
    with pytest.raises(InputError, match=r"csi:0: .* nvarguscamerasrc"):
        open_source("csi:0")


def test_other_libraries_can_still_throw_exceptions(gst: None) -> None:
    """GStreamer's libunwind would take theirs, and the process would abort."""
    with edgepipe.Pipeline.from_config("synthetic") as pipeline:
        pipeline.warm_up()


# --- without GStreamer ----------------------------------------------------------------


def test_the_chain_of_a_csi_camera_holds_numbers_only() -> None:
    camera, converter = csi(1, 1920, 1080, 29.97)
    assert camera.factory == "nvarguscamerasrc"
    assert camera.properties == {"sensor-id": 1}
    assert camera.caps == (
        "video/x-raw(memory:NVMM),width=1920,height=1080,format=NV12,"
        "framerate=29970/1000"
    )
    assert converter == Element("nvvidconv", {}, "video/x-raw,format=NV12")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("csi:", "expected csi:0?width=1280"),
        ("csi:0 ! filesink location=x", "expected csi:0?width=1280"),
        ("csi:-1", "expected csi:0?width=1280"),
        ("csi:0?width=1!filesink", "width: expected a whole number"),
        ("csi:0?flip=1", "unknown key 'flip'"),
        ("csi:0?fps=0", "fps: 0 is not within 1 .. 1000"),
    ],
)
def test_no_text_of_an_address_reaches_a_pipeline(uri: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(uri)
    assert says in str(caught.value)
