from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from edgepipe.configs import load, section
from edgepipe.configs.card_schema import CardEntry
from edgepipe.configs.effective import dump_yaml
from edgepipe.configs.schema import POLICIES, Config
from edgepipe.configs.section import Section

from .conftest import Complaints


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "    deadline: 33\n",
            "5:15: streams[0].deadline: expected a duration such as 33ms, 1.5s or 1h,"
            " got 33: a bare number needs a unit (ns, us, ms, s, m, h, d)",
        ),
        (
            "    deadline: 0s\n",
            "5:15: streams[0].deadline: expected a duration such as 33ms, 1.5s or 1h,"
            " got '0s': it must be longer than nothing",
        ),
        (
            "run: {duration: 1hr}\n",
            "5:17: run.duration: expected a duration such as 33ms, 1.5s or 1h"
            " (or null), got '1hr': unknown unit 'hr', units are ns, us, ms, s, m, h,"
            " d",
        ),
        (
            "scheduler: {fuse: yes}\n",
            "5:19: scheduler.fuse: expected true or false, got 'yes': write true or"
            " false",
        ),
        (
            "    contract: 9/10\n",
            "5:15: streams[0].contract: expected a promise such as 9 of 10 (or null),"
            " got '9/10'",
        ),
        (
            "    contract: 9 of 65\n",
            "5:15: streams[0].contract: expected a promise such as 9 of 10 (or null),"
            " got '9 of 65': the first number is at most the second, which is at most"
            " 64",
        ),
        (
            "    contract: {m: 9, k: 10}\n",
            "5:15: streams[0].contract: expected a promise such as 9 of 10 (or null),"
            " got a mapping",
        ),
        (
            "    weight: 0\n",
            "5:13: streams[0].weight: expected a whole number from 1 to 1000, got 0",
        ),
        (
            "    max_rate: 0\n",
            "5:15: streams[0].max_rate: expected a number from 0.001 to 10000 (or"
            " null), got 0",
        ),
        (
            "scheduler: {policy: best}\n",
            "5:21: scheduler.policy: expected one of auto, fifo, leaky-newest-1,"
            " leaky-newest-2, edf, edf-drop, edf-profile, fixed-priority,"
            " rate-monotonic, freshest, slack-unbatched, slack, slack+ladder, got"
            " 'best'",
        ),
        (
            "    criticality: high\n",
            "5:18: streams[0].criticality: expected one of critical, normal,"
            " background, got 'high'",
        ),
        (
            "tracker: {min_hits: 02}\n",
            "5:21: tracker.min_hits: expected a whole number from 1 to 1000, got '02':"
            " write it without leading zeros",
        ),
        (
            "tracker: {min_hits: 1_0}\n",
            "5:21: tracker.min_hits: expected a whole number from 1 to 1000, got '1_0':"
            " write digits only",
        ),
        (
            "tracker: {min_hits: true}\n",
            "5:21: tracker.min_hits: expected a whole number from 1 to 1000, got true",
        ),
        (
            "tracker: {min_hits: 2.0}\n",
            "5:21: tracker.min_hits: expected a whole number from 1 to 1000, got 2.0",
        ),
        (
            "tracker: {iou: 1.5}\n",
            "5:16: tracker.iou: expected a number from 0.001 to 1, got 1.5",
        ),
        (
            "model: {score: '0.3'}\n",
            "5:16: model.score: expected a number from 0 to 1 (or null), got '0.3': in"
            " quotes it is text",
        ),
        ("model:\n", "5:7: model: expected a mapping, got nothing"),
        ("sinks: {}\n", "5:8: sinks: expected a list, got a mapping"),
        (
            "run:\n  warm_up:1s\n",
            "6:3: run: expected a mapping, got 'warm_up:1s': a blank is missing after"
            " 'warm_up:'",
        ),
        (
            "sinks: [{kind: csv}]\n",
            "5:16: sinks[0].kind: expected one of jsonl, mot, coco, video, mcap, null,"
            " got 'csv'",
        ),
        (
            "sinks: [{path: a}]\n",
            "5:9: sinks[0].kind: this key is required, one of jsonl, mot, coco, video,"
            " mcap, null",
        ),
        ("sinks: [{kind: mot}]\n", "5:9: sinks[0].path: this key is required"),
        ("sinks: [mot]\n", "5:9: sinks[0]: expected a mapping, got 'mot'"),
        (
            'telemetry: {dir: "a\\nb"}\n',
            "5:18: telemetry.dir: expected a path, got 'a\\nb': control characters and"
            " broken ones are not allowed",
        ),
        (
            "model: {path: null}\n",
            "5:15: model.path: expected text, got null: quote it if it is meant as"
            " text",
        ),
    ],
)
def test_a_wrong_value_is_named_with_place_rule_and_value(
    text: str, said: str, smallest: str, complaints: Complaints
) -> None:
    assert complaints(smallest + text) == [f"f.yaml:{said}"]


@pytest.mark.parametrize("name", ["a/b", "..", ".", "x" * 65, "{stream}", " a", ""])
def test_an_id_that_would_not_do_as_a_file_name_is_refused(
    name: str, smallest: str, complaints: Complaints
) -> None:
    (said,) = complaints(smallest.replace("front", f"'{name}'"))
    assert said.startswith("f.yaml:3:9: streams[0].id: expected an id, got '")


def test_a_queue_cannot_hold_more_frames_than_may_be_in_flight(
    smallest: str, complaints: Complaints
) -> None:
    queue = "    queue: {capacity: 9}\n"
    said = "scheduler.max_in_flight, which is 8"
    assert complaints(smallest + queue) == [
        f"f.yaml:5:23: streams[0].queue.capacity: 9 is more than {said}"
    ]
    load.parse(f"{smallest}{queue}scheduler: {{max_in_flight: 9}}\n", "f.yaml")


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(policy: str, smallest: str) -> None:
    ladder = ", ladder: [{stride: 2}]" if policy == "slack+ladder" else ""
    text = f"{smallest}scheduler: {{policy: {policy}{ladder}}}\n"
    assert load.parse(text, "f").config.scheduler.policy == policy


def test_the_default_policy_can_be_chosen(smallest: str) -> None:
    assert load.parse(smallest, "f").config.scheduler.policy in POLICIES


@pytest.mark.parametrize("promise", ["9 of 10", "64 of 64", "1 of 1"])
def test_a_promise_is_written_as_it_was_read(promise: str, smallest: str) -> None:
    first = load.parse(f"{smallest}    contract: {promise}\n", "f")
    assert first.effective["streams"][0]["contract"] == promise
    again = load.parse(load.dump_yaml(first.effective), "g")
    assert again.config.streams[0].contract == first.config.streams[0].contract


@pytest.mark.parametrize("criticality", ["", "    criticality: critical\n"])
def test_only_a_background_stream_can_be_starved(
    criticality: str, smallest: str, complaints: Complaints
) -> None:
    (said,) = complaints(f"{smallest}    min_service: 2s\n{criticality}")
    assert said.startswith(
        "f.yaml:5:18: streams[0].min_service: only a background stream can have one,"
        " this one is "
    )
    text = f"{smallest}    min_service: 2s\n    criticality: background\n"
    assert load.parse(text, "f").config.streams[0].min_service_ns == 2 * 10**9


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("streams: [{id: a, source: {uri: x}}]\n", ["version"]),
        ("version: 1\n", ["streams"]),
        ("version: 1\nstreams: [{}]\n", ["streams[0].id", "streams[0].source"]),
        ("version: 1\nstreams: [{id: a, source: {}}]\n", ["streams[0].source.uri"]),
    ],
)
def test_required_keys_are_asked_for(
    text: str, missing: list[str], complaints: Complaints
) -> None:
    said = [message.split(": ", 1)[1] for message in complaints(text)]
    assert said == [f"{path}: this key is required" for path in missing]


def test_another_version_and_no_streams_are_refused(complaints: Complaints) -> None:
    assert complaints("version: 2\nstreams: []\n") == [
        "f.yaml:1:10: version: expected 1, got 2",
        "f.yaml:2:10: streams: at least one item is required",
    ]


def test_every_unknown_key_is_found_in_one_run_with_the_nearest_known_one(
    smallest: str, complaints: Complaints
) -> None:
    text = (
        smallest
        + "    fsp: 10\n    queue: {capasity: 4}\n"
        + "scheduler:\n  deadine: 33ms\n  queue:\n    capasity: 4\n"
        + "detector:\n  max_detections: 100\n  confidence: 0.3\n"
        + "sinks: [{kind: jsonl, path: a, codec: vp9}]\n"
    )
    assert complaints(text) == [
        "f.yaml:5:5: streams[0].fsp: unknown key, did you mean 'streams[].source.fps'?",
        "f.yaml:6:13: streams[0].queue.capasity: unknown key, did you mean 'capacity'?",
        "f.yaml:8:3: scheduler.deadine: unknown key, did you mean"
        " 'streams[].deadline'?",
        "f.yaml:9:3: scheduler.queue: unknown key, did you mean 'streams[].queue'?",
        "f.yaml:10:5: scheduler.queue.capasity: unknown key, did you mean"
        " 'streams[].queue.capacity'?",
        "f.yaml:11:1: detector: unknown key, known here are version, streams, model,"
        " classifiers, tracker, scheduler, telemetry, sinks, run",
        "f.yaml:12:3: detector.max_detections: unknown key, did you mean"
        " 'model.max_detections'?",
        "f.yaml:13:3: detector.confidence: unknown key",
        "f.yaml:14:32: sinks[0].codec: unknown key, did you mean 'sinks[video].codec'?",
    ]


def test_keys_that_begin_with_x_pass_at_any_depth(smallest: str) -> None:
    text = smallest.replace("{uri", "{x-lens: {fov: 90}, uri") + "x-road: [1]\n"
    plain, marked = load.parse(smallest, "f.yaml"), load.parse(text, "f.yaml")
    assert marked.sha256 == plain.sha256


def test_an_unknown_key_in_a_merged_mapping_is_shown_where_it_was_written(
    complaints: Complaints,
) -> None:
    text = (
        "version: 1\nx-road: &road {deadline: 5ms, lanes: 2}\n"
        "streams:\n  - {<<: *road, id: a, source: {uri: x}}\n"
    )
    (said,) = complaints(text)
    assert said.startswith("f.yaml:2:31: streams[0].lanes: unknown key")


def test_mistakes_of_every_sort_come_in_one_run_in_the_order_of_the_text(
    complaints: Complaints,
) -> None:
    text = (
        "version: 1\nstreams:\n  - id: a\n    id: b\n    source: {uri: x, loop: no}\n"
        "  - id: a\n    source: {uri: y}\n    deadline: 5\nrun:\n  warm_up:3s\n"
        "  stop_within: .inf\nmodle: {}\ntelemetry: {dir: '${NOWHERE}'}\n"
    )
    places = [message.split(": ")[0] for message in complaints(text)]
    lines = [4, 5, 6, 8, 10, 11, 12, 13]
    assert [int(place.split(":")[1]) for place in places] == lines


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        (
            "[{kind: mot, path: a.txt}]",
            "sinks[0].path: 2 streams cannot share the file, put {stream} in 'a.txt'",
        ),
        (
            "[{kind: coco, path: a.json}]",
            "sinks[0].path: 2 streams cannot share the file, put {stream} in 'a.json'",
        ),
        (
            "[{kind: video, path: '{stream}-{date}.mp4'}]",
            "sinks[0].path: '{date}' stands for nothing, only {stream} does",
        ),
        (
            "[{kind: jsonl, path: '{stream}'}, {kind: coco, path: './{stream}'}]",
            "sinks[1].path: path './{stream}' is given twice, first on line 7",
        ),
    ],
)
def test_paths_of_sinks_must_keep_the_results_apart(
    sinks: str, said: str, smallest: str, complaints: Complaints
) -> None:
    second = "  - id: rear\n    source: {uri: b.mp4}\n"
    (message,) = complaints(f"{smallest}{second}sinks: {sinks}\n")
    assert message.split(": ", 1)[1] == said


def test_one_stream_needs_no_placeholder(smallest: str) -> None:
    text = smallest + "sinks: [{kind: video, path: a.mp4}, {kind: null}]\n"
    assert [sink.kind for sink in load.parse(text, "f").config.sinks] == [
        "video",
        "null",
    ]


def test_two_streams_cannot_have_one_id(smallest: str, complaints: Complaints) -> None:
    text = smallest + "  - id: front\n    source: {uri: b.mp4}\n"
    assert complaints(text) == [
        "f.yaml:5:9: streams[1].id: stream id 'front' is given twice, first on line 3"
    ]


def test_ids_that_only_look_different_to_a_computer_are_one_id(
    smallest: str, complaints: Complaints
) -> None:
    text = smallest.replace("front", "caf\u00e9")
    text += "  - id: cafe\u0301\n    source: {uri: b.mp4}\n"
    (said,) = complaints(text)
    assert "is given twice" in said


def test_a_hopeless_file_is_answered_with_a_bounded_number_of_lines(
    smallest: str, complaints: Complaints
) -> None:
    said = complaints(smallest + "".join(f"k{i}: 1\n" for i in range(300)))
    assert len(said) == 101
    assert said[-1] == "f.yaml: 200 more problems are not shown"


def every_section(top: type[Section]) -> list[type[Section]]:
    """A section and all below it."""
    below = [
        inner
        for field in section.keys(top).values()
        for part in section.parts(field.annotation)
        for inner in every_section(part)
    ]
    return [top, *below]


@pytest.mark.parametrize("top", [Config, CardEntry])
def test_every_key_is_described_in_a_sentence(top: type[Section]) -> None:
    bare = [
        f"{part.__name__}.{key}"
        for part in every_section(top)
        for key, field in section.keys(part).items()
        if not field.description
    ]
    assert bare == []


def test_a_config_cannot_be_changed_once_it_is_read(smallest: str) -> None:
    config: Any = load.parse(smallest, "f.yaml").config
    with pytest.raises(ValueError, match="frozen"):
        config.streams[0].deadline_ns = 1


def test_recorded_typing_errors_are_all_found(cases: Path) -> None:
    with pytest.raises(Exception, match="unknown key") as caught:
        load.read(str(cases / "G03/typos.yaml"))
    said = str(caught.value)
    for path in ["deadine_ms", "queue.capasity"]:
        assert f" scheduler.{path}: unknown key" in said
    assert " sources[0].fsp: unknown key" in said
    assert " detector.max_detections: unknown key" in said


def test_a_branch_has_the_keys_of_a_stream_but_no_source(
    smallest: str, complaints: Complaints
) -> None:
    branch = "    branches: [{id: closely, deadline: 1s, source: {uri: b}}]\n"
    assert complaints(smallest + branch)[0] == (
        "f.yaml:5:44: streams[0].branches[0].source: unknown key, did you mean"
        " 'streams[].source'?"
    )


def test_the_rules_for_streams_hold_for_their_branches(
    smallest: str, complaints: Complaints
) -> None:
    text = (
        smallest
        + "    branches:\n"
        + "      - {id: front, min_service: 1s, variant: small}\n"
        + "      - {id: b, queue: {capacity: 9, overflow: block}}\n"
        + "sinks: [{kind: mot, path: a.txt}]\n"
    )
    assert complaints(text) == [
        "f.yaml:6:14: streams[0].branches[0].id: stream id 'front' is given twice,"
        " first on line 3",
        "f.yaml:6:34: streams[0].branches[0].min_service: only a background stream can"
        " have one, this one is normal",
        "f.yaml:6:47: streams[0].branches[0].variant: no variant 'small' in"
        " model.variants, there are full",
        "f.yaml:7:35: streams[0].branches[1].queue.capacity: 9 is more than"
        " scheduler.max_in_flight, which is 8",
        "f.yaml:7:48: streams[0].branches[1].queue.overflow: a branch cannot make its"
        " stream wait",
        "f.yaml:8:27: sinks[0].path: 3 streams cannot share the file, put {stream} in"
        " 'a.txt'",
    ]


def test_a_variant_may_be_there_for_a_branch_alone(smallest: str) -> None:
    text = (
        f"{smallest}    branches: [{{id: closely, variant: precise}}]\n"
        "model: {variants: [{name: precise, precision: fp32}]}\n"
    )
    config = load.parse(text, "f").config
    assert [stream.id for stream in config.all_streams] == ["front", "closely"]


@pytest.mark.parametrize(
    ("written", "speed"), [("4x", 4), ("0.5x", Fraction(1, 2)), ("1.25 x", 1.25)]
)
def test_a_speed_is_written_with_an_x(
    smallest: str, written: str, speed: float
) -> None:
    text = smallest.replace("{uri", f"{{speed: {written}, uri")
    config = load.parse(text, "f.yaml").config
    assert config.streams[0].source.speed == speed


@pytest.mark.parametrize(
    "written", ["4", "x4", "4X", "fast", "0x", "101x", "-1x", "4xx"]
)
def test_what_is_no_speed_is_refused(
    smallest: str, complaints: Complaints, written: str
) -> None:
    (said,) = complaints(smallest.replace("{uri", f"{{speed: {written}, uri"))
    assert "expected a speed from 0.01x to 100x" in said


def test_a_speed_has_no_place_where_nothing_is_paced(
    smallest: str, complaints: Complaints
) -> None:
    fast = smallest.replace("{uri", "{pace: fast, speed: 4x, uri")
    (said,) = complaints(fast)
    assert said.endswith("source.speed: it has no effect with pace: fast")


def test_what_a_run_writes_down_can_be_read_again(smallest: str) -> None:
    for given in ("pace: fast", "speed: 0.5x"):
        loaded = load.parse(smallest.replace("{uri", f"{{{given}, uri"), "f.yaml")
        again = load.parse(dump_yaml(loaded.effective), "g.yaml")
        assert again.config == loaded.config


def test_no_message_shows_the_password_of_an_address(complaints: Complaints) -> None:
    text = 'version: 1\nstreams:\n  - id: a\n    source: {uri: "rtsp://u:s3@h/\\a"}\n'
    (message,) = complaints(text)
    assert "rtsp://***@h/" in message
    assert "s3" not in message
