"""Each way of handing decisions over carries every frame through."""

import handoff
import pytest


@pytest.mark.parametrize("way", sorted(handoff.WAYS))
@pytest.mark.parametrize("paced", [True, False], ids=["paced", "full speed"])
def test_a_way_of_handing_over_brings_every_job_to_its_worker(
    way: str, paced: bool
) -> None:
    handed = handoff.measure(handoff.WAYS[way], 10, paced=paced)
    assert handed.jobs == 30
