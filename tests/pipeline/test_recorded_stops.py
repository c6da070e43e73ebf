"""Situations in which others never came to an end: every one ends in time."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import Step, StreamSpec
from edgepipe.telemetry.clock import MonotonicClock

from .scripted import CPU, Do, ScriptedSource

CLOCK = MonotonicClock()
WITHIN_S = 0.2
"""What a stop is given here, so that the tests are quick."""
WORKER = ["edgepipe-cpu-0"]


def runtime_of(source: ScriptedSource, work: Callable[[Frame, int], None]) -> Runtime:
    spec = StreamSpec("front", (Step("work", "cpu", stateful=True),), credits=True)
    plan = StreamPlan(spec, source, ((Do("work", work),),), 10**12, Pace.FAST)
    core = Scheduler([spec], CPU)
    return Runtime([plan], core, CPU, CLOCK, lambda record: None)


def leaves_nothing(*threads: threading.Thread) -> None:
    """Whoever was stuck comes back, and nobody else is there."""
    for thread in threads:
        thread.join(10)
    names = [thread.name for thread in threading.enumerate()]
    assert [name for name in names if name.startswith("edgepipe")] == []


def stuck_in_a_stage(source: ScriptedSource, *, until_ended: bool) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def block(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(60)

    runtime = runtime_of(source, block)
    runtime.start()
    assert inside.wait(10)
    while until_ended and not runtime.source_records():
        runtime.wait(0.01)
    workers = [t for t in threading.enumerate() if t.name in WORKER]
    stuck, account = runtime.stop(WITHIN_S), runtime.account("front")
    go_on.set()
    assert stuck == WORKER
    assert (account.in_flight, account.failed) == (0, {"hung": 1})
    leaves_nothing(*workers)


def a_consumer_is_blocked() -> None:
    stuck_in_a_stage(ScriptedSource(10**6), until_ended=False)


def a_sink_is_blocked_when_the_source_has_ended() -> None:
    stuck_in_a_stage(ScriptedSource(1), until_ended=True)


def it_is_stopped_twice() -> None:
    runtime = runtime_of(ScriptedSource(10**6), lambda frame, worker: None)
    runtime.start()
    assert runtime.wait_until_ready(10)
    assert runtime.stop(WITHIN_S * 10) == runtime.stop(WITHIN_S * 10) == []
    leaves_nothing()


def a_worker_stops_it() -> None:
    stopped = threading.Event()

    def stop(frame: Frame, worker: int) -> None:
        if not stopped.is_set():
            assert runtime.stop(WITHIN_S * 10) == []
            stopped.set()

    runtime = runtime_of(ScriptedSource(10**6), stop)
    runtime.start()
    assert stopped.wait(10)
    assert runtime.wait(10)
    leaves_nothing(*(t for t in threading.enumerate() if t.name in WORKER))


def an_interrupt_comes_while_it_starts() -> None:
    """At the moment at which the first heavy library begins to load."""
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'openvino':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from edgepipe.cli import main\n"
        "sys.exit(main(['run', 'synthetic']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert done.returncode in (128 + signal.SIGINT, -signal.SIGINT)


SET_UPS = {
    "queues full, consumer blocked 60 s in inference": a_consumer_is_blocked,
    "source finished, sink blocked": a_sink_is_blocked_when_the_source_has_ended,
    "stop() called twice": it_is_stopped_twice,
    "stop() from a worker's callback": a_worker_stops_it,
    "SIGINT during start": an_interrupt_comes_while_it_starts,
}


@pytest.mark.parametrize("set_up", SET_UPS)
def test_it_comes_to_an_end(cases: Path, set_up: str) -> None:
    expected = json.loads((cases / "B08/expected.json").read_text())
    assert [*SET_UPS] == expected["setups"]
    assert expected["threads_left"] == 0
    begun_ns = CLOCK.now_ns()
    SET_UPS[set_up]()
    assert CLOCK.now_ns() - begun_ns < expected["stop_within_s"] * 10**9
