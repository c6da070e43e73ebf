"""Lines of tegrastats: recorded ones of every release, and any the grammar allows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.tegrastats_line import (
    Core,
    Engine,
    Line,
    Memory,
    Rail,
    Temperature,
    parse_line,
)

SAMPLES = Path(__file__).with_name("tegrastats_samples.jsonl")
RECORDED: list[dict[str, Any]] = [
    json.loads(text) for text in SAMPLES.read_text().splitlines()
]
MB = 1 << 20


def recorded(name: str) -> Line:
    (text,) = [each["line"] for each in RECORDED if each["id"] == name]
    return parse_line(text)


@pytest.mark.parametrize("sample", RECORDED, ids=lambda sample: sample["id"])
def test_nothing_of_a_recorded_line_is_left_over(sample: dict[str, Any]) -> None:
    line = parse_line(sample["line"])
    assert line.unknown == []
    assert line.memory[0].name == "RAM"
    words = sample["line"].split()
    temperatures = [word for word in words if "@" in word and word.endswith("C")]
    assert len(line.temperatures) == len(temperatures)


def test_each_release_has_its_own_way_to_say_the_same() -> None:
    for name, engine in {
        "tx1-r28": Engine("GR3D", False, 0.03, (76_000_000,)),
        "nano-r32.6": Engine("GR3D", False, 0.0, (76_000_000,)),
        "agx-xavier-nosudo-r32": Engine("GR3D", False, 0.0, ()),
        "xavier-nx-r35": Engine("GR3D", False, 0.0, (114_000_000,)),
        "agx-orin-r35.6-dla": Engine("GR3D", False, 0.14, (407_000_000, 407_000_000)),
        "agx-orin-r36.4": Engine("GR3D", False, 0.0, (0, 0)),
        "thor-r38.4": Engine("GR3D", False, None, (314_000_000,) * 3),
        "agx-orin-r39.2": Engine("GR3D", False, 0.12, (1_300_000_000,) * 2),
    }.items():
        assert engine in recorded(name).engines


def test_engines_may_be_off_bare_or_with_a_load() -> None:
    engines = {each.name: each for each in recorded("agx-orin-r36.4").engines}
    assert engines["NVENC"] == Engine("NVENC", False, 0.79, (166_000_000,))
    assert engines["NVDEC"] == Engine("NVDEC", True, None, ())
    assert engines["PVA0"] == Engine("PVA0", True, None, ())
    assert engines["APE"] == Engine("APE", False, None, (174_000_000,))


def test_one_name_may_be_a_zone_and_a_rail() -> None:
    line = recorded("agx-xavier-r35")
    assert Temperature("GPU", 35.0, None) in line.temperatures
    assert Rail("GPU", 0.467) in line.rails


def test_rails_that_are_not_connected_come_twice() -> None:
    rails = recorded("agx-orin-r35.1").rails
    assert [each.name for each in rails].count("NC") == 2


def test_of_powers_only_the_one_of_now_is_kept() -> None:
    assert recorded("tx2-4gb-r32").rails[2] == Rail("VDD_IN", 2.93)
    assert recorded("thor-r39").rails[-1] == Rail("VIN", 124.486)


def test_a_zone_that_is_gated_has_no_temperature_and_cold_ones_have() -> None:
    assert Temperature("GPU", None, None) in recorded("agx-orin-r35.2").temperatures
    assert Temperature("GPU", -51.0, None) in recorded("wifi-neg-tx2").temperatures


def test_the_highest_temperature_is_kept_apart() -> None:
    assert recorded("thor-r39").temperatures[0] == Temperature("cpu", 58.25, 61.75)


def test_cores_that_are_off_keep_their_number() -> None:
    assert recorded("tx2nx-nosudo-r32.6").cores[:4] == [
        Core(0.03, 345_000_000), Core(None, None), Core(None, None),
        Core(0.0, 345_000_000),
    ]  # fmt: skip
    assert recorded("tx1-r28").cores[3] == Core(0.05, 408_000_000)


def test_memory_has_the_units_it_says() -> None:
    kinds = {each.name: each for each in recorded("nano-r32.6").memory}
    assert kinds["RAM"] == Memory("RAM", 1923 * MB, 3964 * MB, 2, 2 * MB, None)
    assert kinds["SWAP"] == Memory("SWAP", 191 * MB, 1982 * MB, None, None, 6 * MB)
    assert kinds["IRAM"] == Memory("IRAM", 0, 252 << 10, 1, 252 << 10, None)
    assert recorded("wifi-neg-tx2").memory[0].block_bytes == 512 << 10


def test_the_rest_of_old_and_new_lines_is_read_too() -> None:
    assert recorded("agx-xavier-r32").mts == (0.0, 0.1)
    assert recorded("xavier-nx-r35").date == "07-09-2024 13:31:31"


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("", []),
        ("FOO VDD_IN 4744mW/6179mW bar=7", ["FOO", "bar=7"]),
        ("GPU@ VDD_IN 47/", ["GPU@", "VDD_IN", "47/"]),
        ("RAM 1/2", ["RAM", "1/2"]),
        ("VDD_IN 5mW", ["VDD_IN", "5mW"]),
        ("é\0 ][", ["é\0", "]["]),
        ("CPU [5%@100,what,7%@100]", ["what"]),
        ("cpu@51.2", ["cpu@51.2"]),
    ],
)
def test_unknown_words_are_kept_and_cost_nothing_else(
    text: str, unknown: list[str]
) -> None:
    assert parse_line(text).unknown == unknown


def test_an_unknown_core_does_not_move_the_others() -> None:
    assert parse_line("CPU [5%@100,what,7%@100]").cores == [
        Core(0.05, 100_000_000), Core(None, None), Core(0.07, 100_000_000)
    ]  # fmt: skip


@given(st.text(max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    parse_line(text)


@given(st.sampled_from(RECORDED), st.data())
def test_a_line_cut_anywhere_gives_nothing_that_the_whole_has_not(
    sample: dict[str, Any], data: st.DataObject
) -> None:
    text: str = sample["line"]
    whole = parse_line(text)
    cut = parse_line(text[: data.draw(st.integers(0, len(text)))])
    assert cut.rails == whole.rails[: len(cut.rails)]
    assert [t.celsius for t in cut.temperatures] == [
        t.celsius for t in whole.temperatures[: len(cut.temperatures)]
    ]


# --- any line that the grammar allows: written from values and read back ------------

MHZ = st.integers(0, 4266).map(lambda mhz: mhz * 1_000_000)
SHARES = st.integers(0, 100).map(lambda percent: percent / 100)
UNITS = st.sampled_from(["kB", "MB"])
NAMES = st.from_regex(r"[A-Z][A-Z0-9]{1,4}[0-9]", fullmatch=True)
RAIL_NAMES = st.from_regex(r"V[A-Z0-9]{1,4}_[A-Z0-9_]{1,8}", fullmatch=True)
ZONES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,8}", fullmatch=True)
MILLIWATTS = st.integers(-999, 200_000)
MILLIDEGREES = st.integers(-55_000, 125_000)


def percent(share: float) -> str:
    return f"{round(share * 100)}%"


@st.composite
def cores(draw: st.DrawFn) -> tuple[str, Line]:
    shared = draw(st.booleans())
    hz = draw(MHZ)
    drawn = draw(
        st.lists(st.one_of(st.none(), st.tuples(SHARES, MHZ)), min_size=1, max_size=14)
    )
    words = [
        "off" if core is None
        else percent(core[0]) + ("" if shared else f"@{core[1] // 10**6}")
        for core in drawn
    ]  # fmt: skip
    text = f"CPU [{','.join(words)}]" + (f"@{hz // 10**6}" if shared else "")
    read = [
        Core(None, None) if core is None else Core(core[0], hz if shared else core[1])
        for core in drawn
    ]
    return text, Line(cores=read)


@st.composite
def engines(draw: st.DrawFn) -> tuple[str, Line]:
    name = draw(NAMES)
    suffix = draw(st.sampled_from(["", "_FREQ"]))
    load = draw(st.one_of(st.none(), SHARES))
    clocks = draw(st.lists(MHZ, max_size=3))
    mhz = [str(hz // 10**6) for hz in clocks]
    many = f"@[{','.join(mhz)}]" if len(mhz) > 1 or draw(st.booleans()) else ""
    clock = "" if not mhz else many or f"@{mhz[0]}"
    said = (percent(load) if load is not None else "") + clock
    if not said:
        return f"{name}{suffix} off", Line(engines=[Engine(name, True, None, ())])
    read = Engine(name, False, load, tuple(clocks))
    return f"{name}{suffix} {said}", Line(engines=[read])


@st.composite
def rails(draw: st.DrawFn) -> tuple[str, Line]:
    name = draw(st.one_of(RAIL_NAMES, st.just("NC")))
    unit = draw(st.sampled_from(["", "mW"]))
    numbers = draw(st.lists(MILLIWATTS, min_size=2, max_size=3))
    text = f"{name} " + "/".join(f"{number}{unit}" for number in numbers)
    return text, Line(rails=[Rail(name, numbers[0] / 1000)])


@st.composite
def temperatures(draw: st.DrawFn) -> tuple[str, Line]:
    zone = draw(ZONES)
    now_c = draw(st.one_of(st.none(), MILLIDEGREES.map(lambda m: m / 1000)))
    highest_c = draw(st.one_of(st.none(), MILLIDEGREES.map(lambda m: m / 1000)))
    text = f"{zone}@{-256 if now_c is None else now_c:g}C"
    text += "" if highest_c is None else f"/{highest_c:g}C"
    return text, Line(temperatures=[Temperature(zone, now_c, highest_c)])


@st.composite
def memories(draw: st.DrawFn) -> tuple[str, Line]:
    used, total, size = (draw(st.integers(0, 130_000)) for _ in range(3))
    unit, other = draw(UNITS), draw(UNITS)
    byte = {"kB": 1 << 10, "MB": MB}
    name = draw(st.sampled_from(["RAM", "SWAP", "IRAM"]))
    if name == "SWAP":
        rest = f" (cached {size}{other})"
        read = Memory(name, used, total, None, None, size * byte[other])
    else:
        blocks = draw(st.integers(1, 9999))
        rest = f" (lfb {blocks}x{size}{other})"
        read = Memory(name, used, total, blocks, size * byte[other], None)
    scaled = read._replace(used_bytes=used * byte[unit], total_bytes=total * byte[unit])
    return f"{name} {used}/{total}{unit}{rest}", Line(memory=[scaled])


ITEMS = st.one_of(cores(), engines(), rails(), temperatures(), memories())


def joined(items: list[tuple[str, Line]]) -> tuple[str, Line]:
    whole = Line()
    for _, part in items:
        whole = replace(
            whole,
            memory=whole.memory + part.memory,
            cores=whole.cores + part.cores,
            engines=whole.engines + part.engines,
            temperatures=whole.temperatures + part.temperatures,
            rails=whole.rails + part.rails,
        )
    return " ".join(text for text, _ in items), whole


@given(st.lists(ITEMS, max_size=20).map(joined))
def test_any_line_of_the_grammar_is_read_back_in_any_order(
    written: tuple[str, Line],
) -> None:
    text, line = written
    assert parse_line(text) == line
