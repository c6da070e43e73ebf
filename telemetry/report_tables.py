"""The tables of a report below its charts: stages, resources, facts, what lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgepipe.telemetry.figures import figure, percent
from edgepipe.telemetry.nulls import nulls
from edgepipe.telemetry.report_html import Html, facts, table, tag

Summary = Mapping[str, Any]

_SHOWN = ("mean", "p50", "p99", "max")


def stage_table(summary: Summary) -> Iterator[Html]:
    """Waiting and working time of every stage."""
    stages: Mapping[str, Summary] = summary["stages"]
    yield tag("h2", "Stages")
    yield table(
        "Milliseconds; all frames that reached the stage, delivered or not."
        " A dash: too few frames to claim it.",
        (
            "stage",
            "resource",
            "frames",
            *(f"waiting {key}" for key in _SHOWN),
            *(f"working {key}" for key in _SHOWN),
        ),
        [
            (
                name,
                stage["resource"],
                stage["n"],
                *(figure(stage["queue_ms"][p]) for p in _SHOWN),
                *(
                    figure(stage["service_ms"][p])
                    for p in ("mean", "p50", "p99", "max")
                ),
            )
            for name, stage in stages.items()
        ],
    )


def ladder_tables(summary: Summary) -> Iterator[Html]:
    """What quality the results had, and when and why that changed."""
    ladders = {name: s["ladder"] for name, s in summary["streams"].items()}
    rows = [
        (name, rung, found["value"], found["on_time"])
        for name, ladder in ladders.items()
        for rung, found in ladder["rungs"].items()
    ]
    if not rows:
        return
    yield tag("h2", "Ladder")
    yield table(
        "Utility: worth of the results in time by that of all captured frames at full"
        " quality.",
        ("stream", "utility", "on time"),
        [
            (name, percent(ladder["utility"]), percent(ladder["on_time_share"]))
            for name, ladder in ladders.items()
        ],
    )
    yield table(
        "Frames in time, by the rung on which they were worked on.",
        ("stream", "rung", "value", "in time"),
        rows,
    )
    changes = summary["rung_changes"]
    yield table(
        f"Moves, in seconds since the measured part began. Older ones that are not"
        f" listed: {changes['left_out']}.",
        ("at", "stream", "to rung", "because of", "demand before"),
        [
            (
                f"{event['at_s']:.2f} s",
                event["stream"],
                event["rung"],
                event["cause"],
                percent(event["demand"]),
            )
            for event in changes["events"]
        ],
    )


def resource_table(summary: Summary) -> Iterator[Html]:
    """How busy every resource was."""
    resources: Mapping[str, Summary] = summary["resources"]
    yield tag("h2", "Resources")
    yield table(
        "Utilisation is working time by slots and measured time.",
        ("resource", "slots", "busy", "utilisation", ""),
        [
            (
                name,
                resource["slots"],
                f"{resource['busy_s']:.2f} s",
                percent(resource["utilisation"]),
                _meter(resource["utilisation"]),
            )
            for name, resource in resources.items()
        ],
    )


def _meter(share: float | None) -> Html:
    return Html("" if share is None else f'<meter value="{min(share, 1):.4f}"></meter>')


def source_table(summary: Summary) -> Iterator[Html]:
    """Where the frames came from, and how that ended."""
    yield tag("h2", "Sources")
    yield table(
        "",
        ("stream", "address", "ended as", "detail", "sha256 of the file"),
        [(name, *_source(s["source"])) for name, s in summary["streams"].items()],
        css="words",
    )


def event_tables(summary: Summary) -> Iterator[Html]:
    """What befell the sources, and when."""
    rows = [
        (name, kind, count)
        for name, stream in summary["streams"].items()
        for kind, count in stream["source"]["events"].items()
    ]
    if not rows:
        return
    yield tag("h2", "What befell the sources")
    yield table("", ("stream", "kind", "how often"), rows)
    found = summary["source_events"]
    yield table(
        f"In seconds since the measured part began, and in media time. Older ones that"
        f" are not listed: {found['left_out']}.",
        ("at", "media time", "stream", "kind", "detail"),
        [
            (
                f"{event['at_s']:.2f} s",
                "-" if event["pts_s"] is None else f"{event['pts_s']:.3f} s",
                event["stream"],
                event["kind"],
                event["detail"],
            )
            for event in found["events"]
        ],
        css="words",
    )


def _source(source: Summary) -> Sequence[object]:
    hashed = source["input_hash"] or f"- ({source['reason']})"
    return source["uri"], source["state"], source["detail"], hashed


def fact_tables(summary: Summary) -> Iterator[Html]:
    """What ran, on what, and what it used."""
    for title, document in (
        ("Engine", summary["engine"]),
        ("Model", summary["model"]),
        ("Process", summary["process"]),
        (
            "Sinks and frame log",
            {**summary["sinks"], "frame log": summary["frame_log"]},
        ),
        ("Identity", _identity(summary)),
        ("Environment", summary["environment"]),
    ):
        if document:
            yield tag("h2", title)
            yield facts(document)


def _identity(summary: Summary) -> dict[str, Any]:
    return {
        "ledger": summary["ledger"],
        "config_hash": summary["config_hash"],
        "input_hash": summary["input_hash"],
        "commit": summary["commit"],
    }


def missing_table(summary: Summary) -> Iterator[Html]:
    """Every figure that the run cannot give, grouped by the reason."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in nulls(summary):
        by_reason.setdefault(reason, []).append(path)
    yield tag("h2", "Not measured")
    yield table(
        "What this run cannot tell, and why. None of it is 0.",
        ("reason", "figures"),
        [(reason, ", ".join(paths)) for reason, paths in by_reason.items()],
        css="words",
    )
