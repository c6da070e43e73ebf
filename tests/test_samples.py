"""What calibration and evaluation are shown of a recording."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgepipe.configs.model_card import read_card
from edgepipe.errors import InputError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard
from edgepipe.models.identity import preprocessing_sha256, sha256_of
from edgepipe.samples import frames_in, network_inputs, spread


@pytest.fixture
def card() -> ModelCard:
    return read_card(zoo.card_path("scene-tiny"))[0]


def test_a_sample_is_the_frame_as_the_network_is_given_it(card: ModelCard) -> None:
    uri = "synthetic:?seed=3&width=640&height=384&frames=7"
    samples = list(network_inputs(card, uri, every=3))
    assert [sample.sequence for sample in samples] == [0, 3, 6]
    for sample in samples:
        assert sample.image.shape == (card.height, card.width, 3)
        assert sample.size == (640, 384)
        assert (sample.letterbox.scale_x, sample.letterbox.scale_y) == (0.5, 0.5)
    assert not np.array_equal(samples[0].image, samples[1].image)


def test_there_are_at_most_as_many_as_wanted(card: ModelCard) -> None:
    uri = "synthetic:?seed=3&width=320&height=192&frames=7"
    assert len(list(network_inputs(card, uri, limit=2))) == 2
    assert len(list(network_inputs(card, uri))) == 7


def test_a_picture_that_cannot_be_decoded_is_left_out(
    card: ModelCard, tmp_path: Path
) -> None:
    for number in range(3):
        picture = np.full((48, 80, 3), 60 * number, np.uint8)
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    (tmp_path / "1.png").write_bytes(b"no picture")
    indices = [sample.sequence for sample in network_inputs(card, str(tmp_path))]
    assert indices == [0, 2]


def test_a_camera_is_to_be_recorded_first(card: ModelCard) -> None:
    with pytest.raises(
        InputError, match=r"rtsp://\S*: is a camera; edgepipe record it"
    ):
        next(spread(card, ["rtsp://user:secret@nowhere/1"], 5))


def test_a_recording_that_is_not_there_is_an_input_error(card: ModelCard) -> None:
    with pytest.raises(InputError, match=r"missing\.mp4"):
        next(network_inputs(card, "missing.mp4"))
    with pytest.raises(ValueError, match="1 or more"):
        next(network_inputs(card, "synthetic:", every=0))


def test_only_what_changes_the_input_changes_the_hash_of_preprocessing(
    card: ModelCard,
) -> None:
    same = replace(card, name="other", score_threshold=0.9, files=())
    assert preprocessing_sha256(same) == preprocessing_sha256(card)
    for changed in (
        replace(card, width=352),
        replace(card, mean=(0.0, 0.0, 0.0)),
        replace(card, pad_value=(0, 0, 0)),
    ):
        assert preprocessing_sha256(changed) != preprocessing_sha256(card)


def test_a_files_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a").startswith("ba7816bf8f01cfea")


def test_frames_are_spread_over_recordings_and_each_gets_its_share(
    card: ModelCard,
) -> None:
    long = "synthetic:?seed=3&width=320&height=192&frames=20"
    short = "synthetic:?seed=4&width=320&height=192&frames=3"
    assert (frames_in(long), frames_in(short)) == (20, 3)
    taken = [sample.sequence for sample in spread(card, [long, short], 9)]
    assert taken == [0, 5, 10, 15, 0, 1, 2]
    others = [s.sequence for s in spread(card, [long, short], 9, between=True)]
    assert others == [2, 7, 12, 17, 0, 1, 2]
    with pytest.raises(ValueError, match="1 images of 2 recordings"):
        next(spread(card, [long, short], 1))
