"""Where the workers of a run may be: processors and priority, as typed and as read."""

import pytest

from edgepipe.configs import load
from edgepipe.configs.schema import ThreadsConfig
from edgepipe.errors import ConfigError


def threads(written: str) -> ThreadsConfig:
    text = (
        "version: 1\nstreams:\n  - {id: a, source: {uri: a.mp4}}\n"
        f"run: {{placement: {{cpu: {written}}}}}\n"
    )
    return load.parse(text, "f.yaml").config.run.placement.cpu


@pytest.mark.parametrize(
    ("written", "cpus"),
    [
        ("0", (0,)),
        ("'0'", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("'6,0-1'", (0, 1, 6)),
        ("'0-1,1-2'", (0, 1, 2)),
        ("null", None),
    ],
)
def test_processors_are_written_as_linux_writes_them(
    written: str, cpus: tuple[int, ...] | None
) -> None:
    assert threads(f"{{cpus: {written}}}").cpus == cpus


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("3-1", "3-1 ends before it begins"),
        ("all", "expected processors such as 0-3,6"),
        ("-1", "expected processors such as 0-3,6"),
        ("true", "expected processors such as 0-3,6"),
        ("99999", "expected processors such as 0-3,6"),
    ],
)
def test_what_names_no_processors_is_refused(written: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        threads(f"{{cpus: {written}}}")


def test_processors_are_kept_with_the_run_so_that_they_can_be_read_again() -> None:
    text = "version: 1\nstreams:\n  - {id: a, source: {uri: a.mp4}}\n"
    text += "run: {placement: {cpu: {cpus: 0-2, realtime: 10}}}\n"
    effective = load.parse(text, "f.yaml").effective
    assert effective["run"]["placement"] == {"cpu": {"cpus": "0,1,2", "realtime": 10}}


@pytest.mark.parametrize("priority", ["0", "100", "high"])
def test_a_priority_is_one_of_those_that_linux_has(priority: str) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1 to 99"):
        threads(f"{{realtime: {priority}}}")
