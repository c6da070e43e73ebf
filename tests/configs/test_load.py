import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.configs import load
from edgepipe.configs.scalars import is_mapping
from edgepipe.errors import ConfigError, ConfigErrors

from .conftest import SMALLEST, Complaints


@pytest.mark.parametrize("name", load.packaged())
def test_every_packaged_config_is_valid_and_says_where_it_is_from(name: str) -> None:
    loaded = load.read(name)
    assert loaded.origin == f"packaged {name}"
    assert loaded.config.version == 1


def test_the_expected_configs_are_packaged() -> None:
    assert {"default", "synthetic", "throughput"} <= set(load.packaged())


def test_defaults_are_filled_in_with_their_units(smallest: str) -> None:
    effective = load.parse(smallest, "f.yaml").effective
    assert effective["streams"][0]["deadline"] == "100ms"
    assert effective["run"] == {
        "warm_up": None,
        "duration": None,
        "stop_within": "5s",
        "hang_after": "10s",
        "switch_interval": "200us",
        "placement": {"cpu": {"cpus": None, "realtime": None}},
    }
    assert effective["sinks"] == []
    assert json.loads(json.dumps(effective)) == effective


def test_durations_are_nanoseconds_in_the_config_object(smallest: str) -> None:
    config = load.parse(smallest + "    deadline: 1.5 s\n", "f.yaml").config
    assert config.streams[0].deadline_ns == 1_500_000_000
    assert config.run.duration_ns is None


@pytest.mark.parametrize(
    "name",
    [
        "no",
        "on",
        "off",
        "0755",
        "1_0",
        "12:30:45",
        "1e3",
        "0x1F",
        "true",
        "=",
        "Köln 1",
    ],
)
def test_an_id_is_the_text_typed(name: str, smallest: str) -> None:
    config = load.parse(smallest.replace("front", name), "f.yaml").config
    assert config.streams[0].id == name


def test_equal_configs_have_equal_hashes_however_they_are_written(
    smallest: str,
) -> None:
    longer = (
        "# the same\nstreams: [{source: {loop: false, uri: 'a.mp4'}, id: \"front\"}]\n"
        "version: 1\nrun: {stop_within: 5000ms}\nx-note: hello\n"
    )
    assert load.parse(longer, "a").sha256 == load.parse(smallest, "b").sha256
    other = load.parse(smallest, "b", ["run.warm_up=3s"])
    assert other.sha256 != load.parse(smallest, "b").sha256


NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\{}"),
    min_size=1,
    max_size=64,
).filter(lambda name: name not in (".", ".."))
PATHS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)


@given(NAMES, PATHS, st.integers(1, 10**15), st.none() | st.floats(0, 1))
def test_a_dumped_config_reads_back_to_the_same_config(
    name: str, uri: str, deadline_ns: int, score: float | None
) -> None:
    effective = {
        "version": 1,
        "streams": [
            {"id": name, "source": {"uri": uri}, "deadline": f"{deadline_ns}ns"}
        ],
        "model": {"score": score},
    }
    first = load.parse(load.dump_yaml(effective), "f")
    again = load.parse(load.dump_yaml(first.effective), "g")
    assert again.sha256 == first.sha256
    assert again.config.streams[0].id == name
    assert again.config.streams[0].source.uri == uri
    assert again.config.streams[0].deadline_ns == deadline_ns
    assert again.config.model.score == score


@pytest.mark.parametrize(
    "value",
    ["~", "null", "1e999", ".inf", "0755", "${HOME}", "a$$b", "x # y", "- ", "a: b"],
)
def test_a_dump_keeps_text_that_yaml_would_read_otherwise(
    value: str, smallest: str
) -> None:
    effective = dict(load.parse(smallest, "f").effective)
    effective["telemetry"] = {"dir": value}
    assert load.parse(load.dump_yaml(effective), "f").config.telemetry.dir == value


# --- finding the file -------------------------------------------------------------


def test_a_packaged_name_goes_before_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smallest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("default").write_text(smallest)
    Path("mine").write_text(smallest)
    assert load.read("default").origin == "packaged default"
    assert load.read("./default").origin == "./default"
    assert load.read("mine").origin == "mine"


def test_a_yaml_ending_always_means_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smallest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("default.yaml").write_text(smallest)
    assert load.read("default.yaml").config.streams[0].id == "front"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nothing.yaml", "./nothing.yaml: no such file"),
        ("nothing", "nothing: no such file; the packaged configurations are default"),
        ("/", "/: is a folder, expected a file"),
        ("a\0.yaml", r"a\x00.yaml: cannot be read: not a usable file name"),
        ("two\nlines.yaml", r"two\nlines.yaml: no such file"),
        ("", "'': no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load.read(name)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text(SMALLEST)
    file.chmod(0)
    with pytest.raises(ConfigError, match="permission denied"):
        load.read(str(file))


def test_a_binary_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "clip.yaml"
    file.write_bytes(b"\x00\x00\x00\x18ftypmp42\xff\xfe")
    with pytest.raises(ConfigErrors, match="1:13: not UTF-8 text: byte 0xff"):
        load.read(str(file))


# --- variables --------------------------------------------------------------------


def test_variables_are_replaced_inside_values(smallest: str) -> None:
    text = smallest.replace("a.mp4", '"${HOST}/${PATH_:-live}?p=$$5&q=$x"')
    config = load.parse(text, "f.yaml", env={"HOST": "rtsp://cam"}).config
    assert config.streams[0].source.uri == "rtsp://cam/live?p=$5&q=$x"


def test_a_replaced_value_is_text_where_text_is_wanted_and_read_again_elsewhere(
    smallest: str,
) -> None:
    text = (
        smallest.replace("front", "${NAME}")
        + 'tracker: {min_hits: "${HITS}"}\nscheduler: {fuse: "${FUSE:-false}"}\n'
        + 'model: {score: "${SCORE:-}"}\n'
    )
    config = load.parse(text, "f.yaml", env={"NAME": "null", "HITS": "3"}).config
    assert config.streams[0].id == "null"
    assert config.tracker.min_hits == 3
    assert config.scheduler.fuse is False
    assert config.model.score is None


def test_an_empty_variable_counts_as_not_set_for_the_default(smallest: str) -> None:
    text = smallest + "telemetry: {dir: '${DIR:-runs2}'}\n"
    assert load.parse(text, "f", env={"DIR": ""}).config.telemetry.dir == "runs2"


def test_a_variable_that_is_not_set_is_named_with_its_place(
    smallest: str, complaints: Complaints
) -> None:
    assert complaints(smallest + "    deadline: ${BUDGET}\n") == [
        "f.yaml:5:15: streams[0].deadline: variable BUDGET is not set, and ${BUDGET}"
        " has no default"
    ]


def test_a_variable_that_is_no_text_is_refused(
    smallest: str, complaints: Complaints
) -> None:
    text = smallest.replace("a.mp4", '"${A}"')
    (said,) = complaints(text, env={"A": "caf\udce9"})
    assert said.startswith("f.yaml:4:19: streams[0].source.uri: expected text, got")


@pytest.mark.parametrize("bad", ["${", "${}", "${1A}", "${A-b}", "${A:-${B}}"])
def test_a_malformed_variable_is_refused(
    bad: str, smallest: str, complaints: Complaints
) -> None:
    (said,) = complaints(smallest + f"telemetry: {{dir: '{bad}'}}\n", env={"B": ""})
    assert said.startswith("f.yaml:5:18: telemetry.dir: expected ${NAME}")


# --- --set ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "section", "value"),
    [
        ("run.duration=1h", "run", {"duration": "1h"}),
        ("run={warm_up: 0s}", "run", {"warm_up": "0s"}),
        ("model.path=a=b", "model", {"path": "a=b"}),
        ("telemetry.dir='0755'", "telemetry", {"dir": "0755"}),
    ],
)
def test_an_override_changes_one_value(
    override: str, section: str, value: dict[str, object], smallest: str
) -> None:
    found = load.parse(smallest, "f.yaml", [override]).effective[section]
    assert {**found, **value} == found


def test_overrides_reach_into_lists_and_the_last_one_counts(smallest: str) -> None:
    config = load.parse(
        smallest,
        "f.yaml",
        [
            "streams[0].deadline=50ms",
            "streams[0].deadline=60ms",
            "streams[1]={id: rear, source: {uri: b.mp4}}",
            "sinks[0].kind=jsonl",
            "sinks[0].path=out.jsonl",
        ],
    ).config
    assert config.streams[0].deadline_ns == 60_000_000
    assert [stream.id for stream in config.streams] == ["front", "rear"]
    assert config.sinks[0].kind == "jsonl"


def test_an_override_may_take_everything_away(smallest: str) -> None:
    text = smallest + "sinks: [{kind: 'null'}]\n"
    assert load.parse(text, "f.yaml", ["sinks=[]"]).config.sinks == ()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("deadline", "--set: expected path=value such as streams[0].deadline=50ms"),
        ("=1", "--set: expected path=value"),
        ("a..b=1", "--set: expected path=value"),
        ("streams[0].deadline=33", "--set: streams[0].deadline: expected a duration"),
        ("streams[3].id=x", "--set: streams[3].id: the next item of streams is [1]"),
        ("streams.id=x", "--set: streams.id: streams is a list, not a mapping, write"),
        ("version.a=1", "--set: version.a: version is 1, not a mapping"),
        ("version[0]=1", "--set: version[0]: version is 1, not a list"),
        ("model.scor=1", "--set: model.scor: unknown key, did you mean 'score'?"),
        ("model={", "--set: model: not valid YAML"),
        ("model.path=a: b", "--set: model.path: expected text, got a mapping"),
        ("model.score=.nan", "--set: model.score: .nan is not a finite number"),
        ("streams[1].id=x", "--set: streams[1].source: this key is required"),
        ("model.path=a\u00a0b", "--set: model.path: U+00A0 NO-BREAK SPACE"),
        ("telemetry.dir=", "--set: telemetry.dir: expected a path, got nothing"),
    ],
)
def test_a_bad_override_is_named_by_its_option(
    override: str, said: str, smallest: str, complaints: Complaints
) -> None:
    (message,) = complaints(smallest, [override])
    assert message.startswith(said)


def test_mistakes_of_the_command_line_come_after_those_of_the_file(
    smallest: str, complaints: Complaints
) -> None:
    said = complaints(smallest + "modle: {}\n", ["run.warm_up=x"])
    assert [message.split(": ")[0] for message in said] == ["f.yaml:5:1", "--set"]


# --- nothing else ever comes out --------------------------------------------------

SIGNS = ("\n", "\n  ", "\t", "\r", " ", *"{}[]'\"#@?=", ": ", "- ", "---\n", "|\n")
YAML = ("&a ", "*a", "<<: ", "!!str ", "%YAML 1.2\n", "\\", "\\U00110000", ".inf")
ODD = ("\u00a0", "\u2028", "\ufeff", "\x00", "9" * 120, "1e999", "${A}", "${", "$$")
WORDS = ("a", "b:", "x-", "streams", "id", "sinks", "kind: null", "loop:true", "[0]")
FRAGMENTS = st.sampled_from([*SIGNS, *YAML, *ODD, *WORDS])


def read_or_refuse(text: str | bytes, overrides: list[str]) -> bool:
    """Whether the text is accepted, or refused in our own words, a line each."""
    try:
        loaded = load.parse(text, "f.yaml", overrides, {"A": "x"})
    except ConfigErrors as errors:
        lines = str(errors).split("\n")
        strange = [line for line in lines if not line.startswith(("f.yaml", "--set"))]
        # The words for what no rule of ours explains.
        vague = [e for e in errors.errors if e.problem.endswith("is not allowed here")]
        return strange + vague == []
    return is_mapping(loaded.effective)


@given(st.one_of(st.text(), st.binary(), st.lists(FRAGMENTS).map("".join)))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    assert read_or_refuse(text, [])


@given(st.data())
def test_a_good_config_with_something_put_in_is_read_or_refused(
    data: st.DataObject,
) -> None:
    at = data.draw(st.integers(0, len(SMALLEST)))
    to = data.draw(st.integers(at, min(len(SMALLEST), at + 8)))
    inserted = data.draw(st.lists(FRAGMENTS, max_size=4).map("".join))
    assert read_or_refuse(SMALLEST[:at] + inserted + SMALLEST[to:], [])


@given(st.lists(FRAGMENTS, max_size=8))
def test_any_override_is_applied_or_refused(parts: list[str]) -> None:
    assert read_or_refuse(SMALLEST, ["".join(parts)])
