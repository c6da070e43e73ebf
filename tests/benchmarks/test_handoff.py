"""Each way of handing decisions over brings jobs to their workers."""

import handoff
import pytest


@pytest.mark.parametrize("way", sorted(handoff.WAYS))
@pytest.mark.parametrize("paced", [True, False], ids=["paced", "full speed"])
def test_a_way_of_handing_over_brings_jobs_to_their_workers(
    way: str, paced: bool
) -> None:
    handed = handoff.measure(handoff.WAYS[way], 10, paced=paced)
    # The thread that owns the scheduler may be stopped before it hears of the last.
    assert handed.jobs > 0 if way == "thread" else handed.jobs == 30
