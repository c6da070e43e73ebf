"""Cameras that were unplugged, busy, silent or refused, as they were in the field."""

import json
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from edgepipe.cli import main
from edgepipe.pipeline.source import EventKind, SourceEvent
from edgepipe.stages.sources.camera import CameraError, Shot
from edgepipe.stages.sources.life import Life, Patience, State
from edgepipe.stages.sources.live_reader import LiveReader
from edgepipe.stages.sources.open_live import LiveOptions, open_live
from edgepipe.stages.sources.rtsp import RtspCamera
from edgepipe.stages.sources.v4l2 import V4l2Camera, Wanted
from edgepipe.stages.sources.v4l2_kernel import LinuxKernel
from edgepipe.telemetry.clock import ManualClock, MonotonicClock

from .scripted_camera import (
    MS,
    SECOND_NS,
    Collector,
    ScriptedConnection,
    Silence,
)
from .v4l2_double import Device, ScriptedKernel


def find(cases: Path, name: str) -> Path:
    """The file of that name in whichever folder."""
    (path,) = cases.glob(f"*/{name}")
    return path


def beside(path: Path) -> Any:
    """What is right for a file."""
    return json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))


def expected_where(cases: Path, key: str, text: str) -> Any:
    """The expectation whose ``key`` holds the text."""
    for path in sorted(cases.glob("*/expected.json")):
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if f'"{key}"' in path.read_text(encoding="utf-8") and text in str(data[key]):
            return data
    raise LookupError(text)


# --- unplugged, and plugged in again under another number -----------------------------


class Replug:
    """Plays a list of what happens to USB devices."""

    def __init__(self, script: Any, seed: int) -> None:
        self.clock = ManualClock()
        self.stop = Event()
        self.kernel = ScriptedKernel(self.clock)
        self.kernel.before = self.happen
        self.by_id = f"/dev/v4l/by-id/{script['by_id']}"
        self._wanted = script["by_id"]
        self._left = list(script["events"])
        self._camera = Device()
        self.all_devices: dict[str, Device] = {}
        self.life = Life(Patience(), Random(seed))
        self.collector = Collector(self.clock)
        self.reader = LiveReader(
            V4l2Camera(self.by_id, Wanted(), self.kernel, self.clock),
            self.life,
            self.clock,
            self.stop,
            self.collector,
        )
        self.states: list[tuple[int, State]] = []

    def happen(self) -> None:
        now_ns = self.clock.now_ns()
        self.states.append((now_ns, self.life.state))
        while self._left and self._left[0]["t"] * SECOND_NS <= now_ns:
            self._play(self._left.pop(0))

    def _play(self, event: Any) -> None:
        kind, node = event["ev"], event.get("node", "")
        if kind == "present":
            name = event.get("by_id", self._wanted)
            device = Device()
            self.kernel.nodes[node] = device
            self.kernel.links[f"/dev/v4l/by-id/{name}"] = node
            self.all_devices[f"{name} {node}"] = device
            if name == self._wanted:
                self._camera = device
                if not self.states or self.clock.now_ns() == 0:
                    device.first_ns = 10**18  # until the script says so
        elif kind == "read_ok":
            self._camera.first_ns = round(event["t"] * SECOND_NS)
            self._camera.formats = {"YUYV": [float(event["fps"])]}
        elif kind == "ENODEV":
            self._camera.is_gone = True
        elif kind == "absent":
            del self.kernel.nodes[node]
            self.kernel.links = {
                link: to for link, to in self.kernel.links.items() if to != node
            }
        else:
            assert kind == "end"
            self.stop.set()


@pytest.mark.parametrize("seed", range(5))
def test_a_camera_is_found_again_by_its_name_under_another_number(
    cases: Path, seed: int
) -> None:
    path = find(cases, "replug.json")
    right = beside(path)
    play = Replug(json.loads(path.read_text(encoding="utf-8")), seed)
    play.happen()
    play.reader.run()
    assert play.kernel.opened_nodes == ["/dev/video0", right["reopened_node"]]
    times = [frame.captured_ns for _, frame in play.collector.frames]
    gap_s = max(b - a for a, b in pairwise(times)) / 1e9
    assert right["gap_s"][0] <= gap_s <= right["gap_s"][1]
    assert right["frames"][0] <= len(times) <= right["frames"][1]
    assert right["source_id"] == "unchanged"
    numbers = [frame.number for _, frame in play.collector.frames]
    assert numbers == list(range(len(times)))
    # "state offline 10..13 s; gap is a discontinuity; buffers re-made on reopen"
    offline = {at for at, state in play.states if state is State.BACKING_OFF}
    assert min(offline) < 10.3 * SECOND_NS
    assert max(offline) >= 12.9 * SECOND_NS
    (gap,) = (
        event
        for _, event in play.collector.events
        if event.kind is EventKind.DISCONTINUITY
    )
    assert gap.amount_ns / 1e9 == pytest.approx(gap_s, abs=0.2)
    for name, device in play.all_devices.items():
        assert device.opened == device.closed == (0 if "OTHER" in name else 1)


# --- in use by somebody else ----------------------------------------------------------


@pytest.mark.parametrize("busy_s", [0.5, 20, 300])
def test_a_busy_camera_is_tried_again_and_who_has_it_is_named(
    cases: Path, busy_s: float
) -> None:
    right = expected_where(cases, "inject", "EBUSY")
    assert "retry with back-off (not exit, not 1000 tries/s)" in right["rule"]
    clock, stop = ManualClock(), Event()
    kernel = ScriptedKernel(clock)
    device = kernel.nodes["/dev/video0"] = Device(busy=["other-app (process 42)"])

    def happen() -> None:
        if clock.now_ns() >= busy_s * SECOND_NS:
            device.busy = []
        if clock.now_ns() >= (busy_s + 12) * SECOND_NS:
            stop.set()

    kernel.before = happen
    collector = Collector(clock)
    camera = V4l2Camera("/dev/video0", Wanted(), kernel, clock)
    life = Life(Patience(), Random(3))
    LiveReader(camera, life, clock, stop, collector).run()
    lost = [e for _, e in collector.events if e.kind is EventKind.BACKING_OFF]
    assert lost
    assert all(
        event.detail.startswith(
            "/dev/video0 is in use by other-app (process 42); trying again in"
        )
        for event in lost
    )
    assert len(lost) <= 6 + busy_s / 5
    assert collector.frames[0][0] <= (busy_s + 10.5) * SECOND_NS
    # "after our own stop the node is free at once"
    assert device.opened == device.closed == len(lost) + 1


def test_a_second_edgepipe_says_who_has_the_camera_and_leaves(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = expected_where(cases, "inject", "EBUSY")
    assert "a second instance with the same config says so and exits 1" in right["rule"]
    node = tmp_path / "video0"
    node.touch()
    config = tmp_path / "robot.yaml"
    config.write_text(
        f"version: 1\nstreams: [{{id: front, source: {{uri: 'v4l2://{node}'}}}}]\n"
        f"telemetry: {{dir: {tmp_path / 'runs'}}}\n"
    )
    claim = LinuxKernel().reserve(str(node))
    assert claim is not None
    with claim, node.open():
        assert main(["run", str(config)]) == 1
    said = capsys.readouterr().err
    assert f"{node} is in use by " in said
    assert f"(process {os.getpid()}), by edgepipe" in said
    assert not list((tmp_path / "runs").glob("*/summary.json"))


def test_a_camera_is_free_again_however_its_process_ends(tmp_path: Path) -> None:
    node = tmp_path / "video0"
    node.touch()
    program = (
        "import sys\n"
        "from edgepipe.stages.sources.v4l2_kernel import LinuxKernel\n"
        f"kernel = LinuxKernel(); claim = kernel.reserve({str(node)!r})\n"
        f"fd = kernel.open({str(node)!r}); print('has it', flush=True)\n"
        "sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "has it\n"
    assert LinuxKernel().reserve(str(node)) is None
    assert str(other.pid) in str(LinuxKernel().holders(str(node)))
    other.kill()
    other.communicate()
    assert LinuxKernel().holders(str(node)) == []
    claim = LinuxKernel().reserve(str(node))
    assert claim is not None
    claim.close()


# --- connected, and silent ------------------------------------------------------------


def play_silence(
    fps: float, seconds: float, silent: tuple[float, float], seed: int
) -> Collector:
    """A camera that stays connected and sends nothing for a while."""
    clock, stop = ManualClock(), Event()
    collector = Collector(clock)
    period_ns = round(SECOND_NS / fps)
    from_ns, to_ns = (round(each * SECOND_NS) for each in silent)
    count = round(seconds * fps)

    def due(number: int) -> int:
        return round(number * SECOND_NS / fps)

    class Camera(Silence):
        def connect(self) -> ScriptedConnection:
            while due(self.sent) < clock.now_ns():
                self.sent += 1  # what nobody was there to take
            return ScriptedConnection(self.next_shot, period_ns)

        def next_shot(self, wait_ns: int) -> Shot | None:
            now_ns = clock.now_ns()
            while from_ns <= due(self.sent) < to_ns:
                self.sent += 1
            due_ns = due(self.sent)
            if self.sent >= count:
                stop.set()
                return None
            if due_ns > now_ns + wait_ns:
                clock.advance(wait_ns)
                return None
            clock.advance(max(0, due_ns - now_ns))
            self.sent += 1
            return Shot(0, due_ns, 1, True, self.sent)

        sent = 0

    LiveReader(Camera(), Life(Patience(), Random(seed)), clock, stop, collector).run()
    return collector


@pytest.mark.parametrize("seed", range(5))
def test_a_silent_camera_is_told_of_and_costs_the_others_nothing(
    cases: Path, seed: int
) -> None:
    path = find(cases, "sources.json")
    given, right = json.loads(path.read_text(encoding="utf-8")), beside(path)
    dead = given["dead"]
    silent = dead["from_s"], dead["to_s"]
    for number in range(given["sources"]):
        is_dead = number == dead["index"]
        collector = play_silence(
            given["fps"], given["seconds"], silent if is_dead else (1e6, 1e6), seed
        )
        kind = "dead_source" if is_dead else "other_sources_each"
        assert len(collector.frames) == right[f"frames_{kind}"]
        if not is_dead:
            assert [what for _, what in collector.story()] == ["connecting", "live"]
            late = [at - frame.captured_ns for at, frame in collector.frames]
            assert max(late) <= right["extra_latency_ms_max"] * MS
            continue
        stalled = next(at for at, what in collector.story() if what == "stalled")
        again = next(
            at for at, what in collector.story() if what == "live" and at > stalled
        )
        assert right["state_changes"] == ["2: stalled <= 12 s", "2: ok <= 31 s"]
        assert dead["from_s"] <= stalled <= 12
        assert dead["to_s"] <= again <= 31


# --- servers that do not answer -------------------------------------------------------


class Peer:
    """The recorded server in a process of its own."""

    def __init__(self, script: Path, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(script), mode, "60"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.uri = f"rtsp://127.0.0.1:{int(self.process.stdout.readline())}/live"

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["silent", "stall", "close", "unused port"])
def test_a_server_that_does_not_answer_is_given_up_in_time(
    cases: Path, mode: str
) -> None:
    script = find(cases, "silent_server.py")
    right = beside(script)
    clock, timeout_s = MonotonicClock(), 1.0
    with Peer(script, "silent" if mode == "unused port" else mode) as peer:
        if mode == "unused port":
            peer.__exit__()
        began_ns = clock.now_ns()
        with pytest.raises(CameraError) as caught:
            RtspCamera(peer.uri, "tcp", timeout_s, clock).connect()
        took_s = (clock.now_ns() - began_ns) / 1e9
        assert set(right["cases"]) == {"silent", "stall", "close", "unused port"}
        if mode in ("silent", "stall"):
            assert "connect_timeout + 1 s" in right["cases"]["silent"]
            assert timeout_s <= took_s <= timeout_s + 1
            assert str(caught.value).startswith("no answer for 1.")
        else:
            assert took_s < timeout_s
        patience = Patience(connect_ns=SECOND_NS)
        live = open_live(peer.uri, LiveOptions(patience))
        while isinstance(item := live.next_arrival(), SourceEvent):
            if item.kind is EventKind.BACKING_OFF:  # in each case, and no busy loop
                break
        assert isinstance(item, SourceEvent)
        assert item.amount_ns >= SECOND_NS // 2
        began_ns = clock.now_ns()
        live.close()
        assert (clock.now_ns() - began_ns) / 1e9 <= right["stop_within_s"]
    for thread in threading.enumerate():
        if thread.name == "edgepipe-camera":
            thread.join(60)


# --- children -------------------------------------------------------------------------


def test_cameras_have_no_children_that_could_be_left_behind(cases: Path) -> None:
    """Sources run no programs: what others do with ffmpeg is done in this process."""
    right = expected_where(cases, "inject", "20 reconnects")
    root = Path(__file__).parents[3] / "stages"
    makers = ("subprocess", "os.fork", "os.posix_spawn", "multiprocessing", "os.exec")
    found = [
        (path.name, word)
        for path in root.rglob("*.py")
        for word in makers
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []
    assert (right["zombies"], right["orphans_after_exit"]) == (0, 0)
    me = os.getpid()
    states = [
        stat.rpartition(")")[2].split()
        for each in Path("/proc").glob("[0-9]*/stat")
        if (stat := _text(each))
    ]
    zombies = [fields for fields in states if fields[0] == "Z" and fields[1] == str(me)]
    assert len(zombies) == right["zombies"]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
