"""What edgepipe costs is measured on frames that all go through."""

from pathlib import Path

import overhead
import pytest

from edgepipe.scheduler.policy import BY_NAME


@pytest.mark.parametrize("groups", [overhead.FUSED, overhead.UNFUSED])
@pytest.mark.parametrize(("streams", "fps"), [(1, 0.0), (4, 0.0), (4, 4000.0)])
def test_a_frame_costs_something_with_any_number_of_streams(
    groups: tuple[tuple[str, ...], ...], streams: int, fps: float, tmp_path: Path
) -> None:
    us = overhead.cpu_us_per_frame(
        groups, 40, 2, BY_NAME["slack"], tmp_path, streams=streams, fps=fps
    )
    assert us > 0


def test_the_parts_of_a_frame_are_told_apart_and_put_back() -> None:
    before = [getattr(owner, name) for owner, name in overhead.PARTS.values()]
    split = overhead.breakdown(40, 2, BY_NAME["slack"], 1)
    assert before == [getattr(owner, name) for owner, name in overhead.PARTS.values()]
    assert split.keys() > overhead.PARTS.keys()
    assert split["scheduler"] > 0
    everything = split.pop("everything, with the clocks of this split")
    assert sum(split.values()) < everything
