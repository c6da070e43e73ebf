"""The scenes of the benchmark are what it says, and its ways agree."""

import nms
import nms_peer
import numpy as np
import pytest


@pytest.mark.parametrize("name", sorted(nms.scenes()))
def test_a_scene_has_as_many_likely_cells_as_its_name_says(name: str) -> None:
    output = nms.scenes()[name]
    cells, likely = name.split("-")[0].split("/")
    assert output.shape == (84, int(cells))
    assert np.count_nonzero(output[4:].max(axis=0) >= nms.SCORE) == int(likely)


@pytest.mark.parametrize("likely", [0, 50, 300])
def test_opencv_and_edgepipe_keep_as_many_boxes(likely: int) -> None:
    output = nms.scene(320, likely)
    assert nms.edgepipe(320)(output) == nms_peer.opencv()(output)
