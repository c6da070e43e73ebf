"""Beginning in one place and waiting in another, on both engines."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import AsyncEngine, Outputs
from edgepipe.models.load import load_engine
from edgepipe.models.requests import Requests
from edgepipe.models.shape_profile import ShapeProfile

Images = NDArray[np.uint8]


def on_gpu() -> bool:
    """Whether there is one that PyTorch can use."""
    if find_spec("torch") is None:
        return False
    torch: Any = import_module("torch")
    return bool(torch.cuda.is_available())


ENGINES = [
    "openvino",
    "onnxruntime",
    pytest.param(
        "torch",
        marks=pytest.mark.skipif(find_spec("torch") is None, reason="needs torch"),
    ),
    pytest.param(
        "torch-cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not on_gpu(), reason="needs torch and a GPU"),
        ],
    ),
]
each_engine = pytest.mark.parametrize("name", ENGINES)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, scene_tiny: ModelCard) -> Iterator[Any]:
    """The small model with two requests that take up to three images."""
    loaded = load_engine(
        scene_tiny, "fp32", request.param, requests=2, threads=1, batch_max=3
    )
    yield loaded
    loaded.close()


@pytest.fixture
def images(scene_tiny: ModelCard) -> Images:
    shape = (3, scene_tiny.height, scene_tiny.width, 3)
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def scores(outputs: Outputs) -> NDArray[np.float32]:
    return outputs["scores"].copy()


def test_submit_and_wait_give_what_infer_gives(
    engine: AsyncEngine, images: Images
) -> None:
    for n in (1, 2, 3):
        wanted = scores(engine.infer(images[:n]))
        engine.submit(images[:n])
        np.testing.assert_array_equal(engine.wait()["scores"], wanted)


def test_images_are_the_callers_again_once_they_are_submitted(
    engine: AsyncEngine, images: Images
) -> None:
    wanted = scores(engine.infer(images))
    engine.submit(images)
    images[:] = 0
    np.testing.assert_array_equal(engine.wait()["scores"], wanted)


def test_requests_in_flight_at_once_have_their_own_memory(
    engine: AsyncEngine, images: Images
) -> None:
    wanted = [scores(engine.infer(images[i : i + 1])) for i in range(2)]
    for number in range(2):
        engine.submit(images[number : number + 1], number)
    got = [engine.wait(number)["scores"] for number in (1, 0)]
    np.testing.assert_array_equal(got[1], wanted[0])
    np.testing.assert_array_equal(got[0], wanted[1])


def test_another_thread_may_wait_than_the_one_that_submitted(
    engine: AsyncEngine, images: Images
) -> None:
    wanted = scores(engine.infer(images))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(engine.submit, images).result()
        got = other.submit(engine.wait).result()
    np.testing.assert_array_equal(got["scores"], wanted)


def test_a_submitted_request_can_be_waited_for_and_nothing_else(
    engine: AsyncEngine, images: Images
) -> None:
    engine.submit(images, 1)
    for use in (engine.submit, engine.infer):
        with pytest.raises(EngineError, match="request 1 is submitted and not waited"):
            use(images, 1)
    engine.wait(1)
    engine.infer(images, 1)


def test_a_request_to_which_nothing_was_submitted_cannot_be_waited_for(
    engine: AsyncEngine, images: Images
) -> None:
    for _ in range(2):
        with pytest.raises(EngineError, match="nothing was submitted to request 0"):
            engine.wait()
        engine.infer(images)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_request_that_there_is_not_is_named(
    engine: AsyncEngine, images: Images, number: int
) -> None:
    for use in (engine.submit, engine.infer):
        with pytest.raises(EngineError, match=f"no request {number}: .* has 2"):
            use(images, number)


def test_more_than_the_profile_allows_is_refused_before_anything_runs(
    engine: AsyncEngine, images: Images, scene_tiny: ModelCard
) -> None:
    size = f"{scene_tiny.height}x{scene_tiny.width}x3"
    assert engine.profile.allowed() == f"1..3x{size}"
    more = np.concatenate([images, images[:1]])
    with pytest.raises(EngineError, match=rf"asked for 4x{size}, allowed is 1\.\.3x"):
        engine.submit(more)
    engine.submit(images)
    engine.wait()
    assert len(engine.infer(more)["scores"]) == 4  # one by one


def test_what_is_cancelled_leaves_the_request_free(
    engine: AsyncEngine, images: Images
) -> None:
    engine.cancel()  # nothing to do
    wanted = scores(engine.infer(images))
    engine.submit(images)
    engine.cancel()
    with pytest.raises(EngineError, match="nothing was submitted"):
        engine.wait()
    np.testing.assert_array_equal(engine.infer(images)["scores"], wanted)


def test_an_engine_may_be_closed_with_requests_in_flight(
    engine: AsyncEngine, images: Images
) -> None:
    engine.submit(images, 0)
    engine.submit(images, 1)
    engine.close()
    engine.close()
    for use in (engine.wait, engine.cancel):
        with pytest.raises(EngineError, match="closed"):
            use(0)


def test_a_request_in_flight_can_be_made_anew(
    engine: AsyncEngine, images: Images
) -> None:
    wanted = scores(engine.infer(images, 1))
    engine.submit(images, 1)
    engine.renew(1)
    np.testing.assert_array_equal(engine.infer(images, 1)["scores"], wanted)


def test_a_cancellation_never_meets_the_run_after_it(
    engine: AsyncEngine, images: Images
) -> None:
    wanted = scores(engine.infer(images))
    with ThreadPoolExecutor(1) as threads:
        for _ in range(5):
            inferring = threads.submit(engine.infer, images)
            while not inferring.done():
                engine.cancel()
            error = inferring.exception()
            assert error is None or str(error) == "request 0 was cancelled"
    np.testing.assert_array_equal(engine.infer(images)["scores"], wanted)


class Held:
    """A slot that runs until it is let go or stopped."""

    def __init__(self) -> None:
        self.running, self.let_go = threading.Event(), threading.Event()
        self.stopped = False

    def run(self, images: Images) -> Outputs:
        del images
        return self.finish()

    def start(self, images: Images) -> None:
        if images.max() > 0:
            raise OSError("the cable")

    def finish(self) -> Outputs:
        self.running.set()
        assert self.let_go.wait(10)
        if self.stopped:
            raise OSError("stopped")
        return {}

    def stop(self) -> None:
        self.stopped = True
        self.let_go.set()


@pytest.fixture
def held() -> tuple[Held, Requests]:
    slot, shape = Held(), (1, 2, 2, 3)
    profile = ShapeProfile("x", shape, shape, shape)
    return slot, Requests(lambda: slot, 1, profile, (OSError,), "it said {}".format)


BLACK: Images = np.zeros((1, 2, 2, 3), np.uint8)


def test_a_request_that_a_thread_is_inside_of_is_refused_to_others(
    held: tuple[Held, Requests],
) -> None:
    slot, requests = held
    with ThreadPoolExecutor(1) as threads:
        inside = threads.submit(requests.infer, BLACK, 0)
        assert slot.running.wait(10)
        for use in (requests.infer, requests.submit):
            with pytest.raises(EngineError, match="request 0 is in use by another"):
                use(BLACK, 0)
        slot.let_go.set()
        assert inside.result() == {}


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_thread_that_waits_is_told_that_its_request_was_cancelled(
    held: tuple[Held, Requests], end: str
) -> None:
    slot, requests = held
    requests.submit(BLACK, 0)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(requests.wait, 0)
        assert slot.running.wait(10)
        requests.cancel(0) if end == "cancel" else requests.close()
        with pytest.raises(EngineError, match="request 0 was cancelled"):
            waiting.result()


def test_a_start_that_fails_leaves_the_request_free(
    held: tuple[Held, Requests],
) -> None:
    _, requests = held
    for _ in range(2):
        with pytest.raises(EngineError, match="it said the cable"):
            requests.submit(BLACK + 1, 0)


PROGRAM = """
import sys, threading
import numpy as np
from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.load import load_engine

card, _ = read_card(zoo.card_path("scene-tiny"))
engine = load_engine(card, "int8", sys.argv[1], requests=2, threads=1)
image = np.zeros((1, card.height, card.width, 3), np.uint8)
for _ in range(2):
    thread = threading.Thread(target=engine.infer, args=(image, 1))
    thread.start()
    thread.join()
engine.submit(image)
if sys.argv[2] == "closed":
    engine.close()
print("end")
"""


@pytest.mark.parametrize("end", ["closed", "in flight"])
@each_engine
def test_a_program_ends_well_whatever_threads_used_the_engine(
    name: str, end: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, end],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
