import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.report import render_report
from edgepipe.telemetry.report_charts import latency_histogram, latency_over_time
from edgepipe.telemetry.report_data import COLUMNS, Series, columns, gather, time_span
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.summary import build_summary

MS = 1_000_000
VOID = {"meta", "rect", "path"}

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


class Page(HTMLParser):
    """Checks that elements nest, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def rendered(
    make_run: MakeRun, frames: list[FrameRecord], warning: str = "", **changes: Any
) -> str:
    return render_report(build_summary(*make_run(frames, **changes)), frames, warning)


@pytest.fixture
def frames(make_frame: MakeFrame) -> list[FrameRecord]:
    return [
        *(make_frame(n, warm_up=True, latency_ms=400) for n in range(5)),
        *(make_frame(n, latency_ms=18 + n % 7) for n in range(5, 320)),
        *(make_frame(n, fate="dropped", reason="doomed") for n in range(320, 330)),
    ]


def test_the_page_is_whole_needs_no_script_and_fetches_nothing(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    html = rendered(make_run, frames)
    page = Page(html)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not page.attributes & {"src", "href", "onclick", "onload"}
    assert not re.search(r"url\(|@import|https?://", html)
    assert "prefers-color-scheme: dark" in html


def test_verdict_misses_and_figures_are_at_hand(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    text = Page(rendered(make_run, frames)).text
    assert "VALID" in text
    assert "3.08 % of the deadlines missed" in text
    assert "10 (doomed 10)" in text
    assert "deadline 33 ms" in text
    assert "nanodet-g" in text
    assert "device.power.value" in text  # among what was not measured


def test_a_run_without_a_warm_up_does_not_speak_of_one(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    assert "s of warm-up (5 frames" in rendered(make_run, frames)
    assert "s of warm-up" not in rendered(make_run, frames[5:])


def test_an_invalid_run_tells_why(make_run: MakeRun, frames: list[FrameRecord]) -> None:
    text = Page(rendered(make_run, frames, forced_stop="stage 'infer' hung")).text
    assert "INVALID" in text
    assert "the pipeline was forced to stop: stage 'infer' hung" in text


def test_foreign_text_never_becomes_markup(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    name = "<script>alert('x')</script>&\x1b[31m"
    frames = [make_frame(n, stream=name, stage=name) for n in range(3)]
    html = rendered(
        make_run, frames, model={"name": name}, forced_stop=name, warning=name
    )
    page = Page(html)
    assert "script" not in page.tags
    assert "\x1b" not in html
    assert "<script>alert('x')</script>&" in page.text


def test_a_stream_that_left_no_frames_is_shown_without_charts(
    make_run: MakeRun,
) -> None:
    silent = StreamFacts("front", "normal", 33 * MS, 0, 0, {})
    text = Page(rendered(make_run, [], streams=[silent])).text
    assert "The frame log has no measured frame of this stream." in text
    assert "no frame was delivered" in text


def test_a_stream_whose_frames_were_all_dropped_shows_only_the_drops(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [make_frame(n, fate="dropped", reason="stale") for n in range(20)]
    page = Page(rendered(make_run, frames))
    assert "dropped or failed (20)" in page.text
    assert "Delivered frames by latency" not in page.text


def test_the_warning_about_the_log_is_on_the_page(
    make_run: MakeRun, frames: list[FrameRecord]
) -> None:
    assert "cut off" in Page(rendered(make_run, frames, "frames.arrow: cut off")).text


def series(latencies_ms: list[float], period_ms: float = 40) -> Series:
    found = Series()
    for n, ms in enumerate(latencies_ms):
        found.done_ns.append(int(n * period_ms * MS))
        found.latency_ns.append(int(ms * MS))
    return found


def drawn(svg: str, css: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(svg).iter() if e.get("class") == css]


def words(svg: str) -> str:
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_each_delivered_frame_is_a_dot_and_each_lost_one_a_tick() -> None:
    found = series([20.0] * 50)
    found.lost_ns.extend([100 * MS, 900 * MS])
    svg = latency_over_time(found, (0, 2000 * MS), 33)
    (dots,), (lost,) = drawn(svg, "dot"), drawn(svg, "lost")
    assert dots.get("d", "").count("h0") == 50
    assert lost.get("d", "").count("M") == 2
    assert len(drawn(svg, "deadline")) == 1


def test_thinning_out_a_long_run_never_hides_its_slowest_frame() -> None:
    found = series([20.0] * 50_000)
    found.latency_ns[31_234] = 77 * MS
    span_ns = time_span([found])
    thinned = columns(found, *span_ns)
    assert len(thinned) <= COLUMNS
    assert max(column.high_ns for column in thinned) == 77 * MS
    assert len(drawn(latency_over_time(found, span_ns, 100), "range")) == 1


def test_frames_beyond_the_scale_are_told_in_words() -> None:
    svg = latency_over_time(series([10.0] * 500 + [900.0, 950.0]), (0, 10**11), 33)
    assert "2 frames beyond the scale, up to 950.0 ms" in words(svg)


def test_a_deadline_far_above_every_latency_does_not_flatten_the_picture() -> None:
    svg = latency_over_time(series([10.0] * 20), (0, 10**9), 1000)
    assert drawn(svg, "deadline") == []
    assert "deadline 1000 ms, far above this scale" in words(svg)
    assert drawn(latency_histogram(series([10.0] * 20), 1000, {}), "deadline") == []


def test_the_histogram_shows_the_rarest_frame_and_names_its_marks() -> None:
    svg = latency_histogram(series([10.0] * 5000 + [25.0]), 33, {"p50": 10.0})
    (bars,) = drawn(svg, "bar")
    assert bars.get("d", "").count("M") == 2
    assert "p50 10.0 ms" in words(svg)


def test_warm_up_frames_are_in_no_chart(frames: list[FrameRecord]) -> None:
    found = gather(frames)["front"]
    assert len(found.latency_ns) == 315
    assert len(found.lost_ns) == 10
    assert max(found.latency_ns) < 400 * MS


def test_without_frames_time_still_has_a_span() -> None:
    assert time_span([]) == (0, 1)
    assert time_span([series([5.0])]) == (0, 1)
