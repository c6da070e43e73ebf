"""Cameras that speak RTSP: a real server on loopback, and peers that are none.

The server needs Debian's GStreamer with its Python bindings; without them the tests
that use it are skipped.
"""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import median

import pytest

from edgepipe.pipeline.source import Arrival, DamagedError, EventKind, SourceEvent
from edgepipe.stages.sources.camera import CameraError
from edgepipe.stages.sources.life import SECOND_NS, Patience
from edgepipe.stages.sources.live import LiveSource
from edgepipe.stages.sources.open_live import LiveOptions, open_live
from edgepipe.stages.sources.recording import VideoPacket
from edgepipe.stages.sources.rtsp import RtspCamera, RtspConnection
from edgepipe.telemetry.clock import MonotonicClock

pytestmark = pytest.mark.slow

PYTHON = "/usr/bin/python3"
SCRIPT = Path(__file__).with_name("rtsp_server.py")
MS = 1_000_000
PATIENCE = Patience(
    connect_ns=5 * SECOND_NS,
    reconnect_after_ns=2 * SECOND_NS,
    retry_min_ns=50 * MS,
    retry_max_ns=50 * MS,
)

Serve = Callable[..., "Server"]


class Server:
    """A server in a process of its own, so that it can be killed."""

    def __init__(self, *options: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [PYTHON, str(SCRIPT), "--port", str(port), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            pytest.skip("no GStreamer RTSP server for the system's Python")
        self.port = int(line)
        self.uri = f"rtsp://127.0.0.1:{self.port}/live"

    def stop(self) -> None:
        """As when its power is cut."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:

        def start(*options: str, port: int = 0) -> Server:
            server = Server(*options, port=port)
            stack.callback(server.stop)
            return server

        yield start


@contextmanager
def watch(
    uri: str, patience: Patience = PATIENCE, **options: object
) -> Generator[LiveSource]:
    live = open_live(uri, LiveOptions(patience, **options))  # type: ignore[arg-type]
    try:
        yield live
    finally:
        live.close()


def see(live: LiveSource, count: int) -> tuple[list[int], list[SourceEvent], int]:
    """Indices of so many good pictures, what befell, and how many were damaged."""
    good, events, damaged = list[int](), list[SourceEvent](), 0
    while len(good) < count:
        item = live.next_arrival()
        assert item is not None
        if isinstance(item, SourceEvent):
            events.append(item)
            continue
        assert item.captured_ns is not None
        try:
            picture = live.decode(item.index)
        except DamagedError:
            damaged += 1
            continue
        assert (picture.width, picture.height) == (320, 240)
        good.append(item.index)
    return good, events, damaged


def first_of(live: LiveSource, kind: EventKind) -> SourceEvent:
    """Wait for an event of that kind."""
    while True:
        item = live.next_arrival()
        assert item is not None
        if isinstance(item, SourceEvent) and item.kind is kind:
            return item


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "h265", "jpeg"])
def test_every_codec_comes_over_every_transport(
    serve: Serve, codec: str, transport: str
) -> None:
    server = serve("--codec", codec, "--config", "1")
    with watch(server.uri, transport=transport) as live:
        good, events, damaged = see(live, 25)
        assert damaged == 0
        assert good == list(range(25))
        assert [e.kind for e in events[:2]] == [EventKind.CONNECTING, EventKind.LIVE]
        assert (live.info.width, live.info.height) == (320, 240)
        assert live.info.fps == 20


def test_frames_come_in_the_order_in_which_they_are_shown(serve: Serve) -> None:
    server = serve("--config", "1", "--b-frames", "2")
    with watch(server.uri) as live:
        stamps = list[int]()
        while len(stamps) < 30:
            item = live.next_arrival()
            if isinstance(item, Arrival) and item.captured_ns is not None:
                live.decode(item.index)
                stamps.append(item.captured_ns)
        steps = [b - a for a, b in pairwise(stamps)]
        assert min(steps) > 0
        assert abs(median(steps) - 50 * MS) < 5 * MS


def test_a_server_that_is_killed_and_comes_back_is_found_again(serve: Serve) -> None:
    server = serve("--config", "1")
    with watch(server.uri) as live:
        before, _, _ = see(live, 10)
        server.stop()
        first_of(live, EventKind.BACKING_OFF)
        serve("--config", "1", port=server.port)
        after, events, damaged = see(live, 10)
        assert after[0] > before[-1]
        assert damaged == 0  # it begins with a key frame
        assert EventKind.DISCONTINUITY in [event.kind for event in events]
        assert live.status.reconnects == 1


def test_a_server_that_falls_silent_stalls_and_is_left(serve: Serve) -> None:
    server = serve("--config", "1")
    with watch(server.uri) as live:
        see(live, 5)
        server.process.send_signal(signal.SIGSTOP)
        assert first_of(live, EventKind.STALLED).amount_ns >= SECOND_NS
        assert live.status.state == "stalled"
        assert "nothing came for" in first_of(live, EventKind.BACKING_OFF).detail
        server.process.send_signal(signal.SIGCONT)
        see(live, 3)


def test_a_short_silence_costs_at_most_what_is_lost_with_it(serve: Serve) -> None:
    """Mostly no connection either: FFmpeg loses it if a packet's header was cut."""
    server = serve("--config", "1")
    patience = Patience(reconnect_after_ns=60 * SECOND_NS)
    with watch(server.uri, patience) as live:
        see(live, 5)
        server.process.send_signal(signal.SIGSTOP)
        first_of(live, EventKind.STALLED)
        server.process.send_signal(signal.SIGCONT)
        _, events, damaged = see(live, 20)
        kinds = [event.kind for event in events]
        assert damaged <= 12  # up to a key frame, where frames were lost with it
        if live.status.reconnects:
            assert kinds[0] is EventKind.BACKING_OFF
            assert EventKind.DISCONTINUITY in kinds
        else:
            assert kinds[:2] == [EventKind.LIVE, EventKind.GAP]


def test_a_server_that_cuts_frames_into_two_is_understood(serve: Serve) -> None:
    """One of GStreamer's usual settings: parameter sets before every slice."""
    server = serve("--config", "-1")
    with watch(server.uri) as live:
        _, _, damaged = see(live, 40)
        assert damaged <= 12  # it takes up to one key frame to find out


def test_who_does_not_decode_for_long_gets_the_newest_pictures(serve: Serve) -> None:
    server = serve("--config", "1", "--fps", "60", "--gop", "300")
    with watch(server.uri) as live:
        last = -1
        while last < 200:  # more than the backlog holds, and no key frame yet
            item = live.next_arrival()
            if isinstance(item, SourceEvent):
                if item.kind is EventKind.GAP:
                    break
            elif item is not None:
                last = item.index
        good, _, damaged = see(live, 20)
        assert damaged == 0
        assert good == list(range(good[0], good[0] + 20))


def test_a_wrong_password_is_said_and_no_password_is(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve("--user", "admin:right-one")
    address = server.uri.removeprefix("rtsp://")
    with watch(f"rtsp://admin:wrong-one@{address}") as live:
        event = first_of(live, EventKind.BACKING_OFF)
        assert event.detail.startswith("user or password is wrong (401)")
        assert live.info.uri == f"rtsp://***@{address}"
    with watch(f"rtsp://admin:right-one@{address}") as live:
        see(live, 3)
    assert "-one" not in caplog.text


def test_a_stream_that_the_server_ends_is_opened_again(serve: Serve) -> None:
    server = serve("--config", "1", "--frames", "30")
    with watch(server.uri) as live:
        see(live, 5)
        first_of(live, EventKind.BACKING_OFF)
        see(live, 5)


def test_twenty_reconnects_leave_no_thread_no_descriptor_and_no_child(
    serve: Serve,
) -> None:
    server = serve("--config", "1")
    connected = RtspCamera(server.uri, "tcp", 5.0, MonotonicClock())
    counts = list[tuple[int, int]]()
    for _ in range(20):
        connection = connected.connect()
        while connection.read() is None:
            pass
        connection.close()
        counts.append((threading.active_count(), len(os.listdir("/proc/self/fd"))))
    assert len(set(counts)) == 1
    me = Path("/proc/self/task")
    children = [
        pid for file in me.glob("*/children") for pid in file.read_text().split()
    ]
    assert children == [str(server.process.pid)]


def test_a_frame_that_is_lost_is_not_hidden(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder would show the picture before, and wrong ones up to the key frame."""
    seen = [0]
    demux = RtspConnection._demux  # pyright: ignore[reportPrivateUsage]

    def lose_some(self: RtspConnection) -> object:
        packet = demux(self)
        seen[0] += packet is not None and not packet.is_keyframe
        is_lost = packet is not None and not packet.is_keyframe and seen[0] % 15 == 14
        return None if is_lost else packet

    monkeypatch.setattr(RtspConnection, "_demux", lose_some)
    server = serve("--config", "1")
    with watch(server.uri) as live:
        _, _, damaged = see(live, 30)
        assert damaged > 3


def test_a_server_whose_frames_all_have_the_same_time_is_left(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    demux = RtspConnection._demux  # pyright: ignore[reportPrivateUsage]
    seen = list[VideoPacket | None]()

    def repeat(self: RtspConnection) -> VideoPacket | None:
        seen.append(seen[0] if seen else demux(self))
        return seen[0]

    server = serve()
    connection = RtspCamera(server.uri, "tcp", 60, MonotonicClock()).connect()
    monkeypatch.setattr(RtspConnection, "_demux", repeat)
    frames = takewhile(lambda _: len(seen) < 1000, iter(connection.read, seen))
    with closing(connection), pytest.raises(CameraError, match="have the same time"):
        list(frames)


@contextmanager
def peer(mode: str) -> Generator[int]:
    """Something that accepts connections: ``silent``, ``stall`` or ``close``."""
    listening = socket.create_server(("127.0.0.1", 0))
    kept = list[socket.socket]()

    def serve_all() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            if mode == "close":
                connection.close()
                continue
            kept.append(connection)
            if mode == "stall" and connection.recv(4096):
                connection.sendall(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n")

    thread = threading.Thread(target=serve_all, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in kept:
            connection.close()
        thread.join(60)


@pytest.mark.parametrize("mode", ["silent", "stall"])
def test_a_peer_that_does_not_answer_is_given_up_in_time(mode: str) -> None:
    clock = MonotonicClock()
    with peer(mode) as port:
        camera = RtspCamera(f"rtsp://u:pw@127.0.0.1:{port}/x", "tcp", 0.5, clock)
        began_ns = clock.now_ns()
        with pytest.raises(CameraError, match=r"no answer for 0\.\d s") as caught:
            camera.connect()
        assert clock.now_ns() - began_ns >= SECOND_NS // 2
        assert "pw" not in str(caught.value)


def test_a_peer_that_closes_and_a_port_that_nobody_has_fail_at_once() -> None:
    with peer("close") as port:
        camera = RtspCamera(f"rtsp://127.0.0.1:{port}/x", "tcp", 60, MonotonicClock())
        with pytest.raises(CameraError, match="invalid data"):
            camera.connect()
    camera = RtspCamera(f"rtsp://127.0.0.1:{port}/x", "tcp", 60, MonotonicClock())
    with pytest.raises(CameraError, match="connection refused"):
        camera.connect()


@pytest.mark.parametrize("mode", ["silent", "stall"])
def test_stopping_does_not_wait_for_a_peer_that_does_not_answer(mode: str) -> None:
    clock = MonotonicClock()
    with peer(mode) as port:
        live = open_live(
            f"rtsp://127.0.0.1:{port}/x", LiveOptions(Patience(connect_ns=SECOND_NS))
        )
        first_of(live, EventKind.CONNECTING)
        began_ns = clock.now_ns()
        live.close()
        assert clock.now_ns() - began_ns < 2 * SECOND_NS
        assert live.next_arrival() is None
    for thread in threading.enumerate():
        if thread.name == "edgepipe-camera":
            thread.join(60)
            assert not thread.is_alive()
