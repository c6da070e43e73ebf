"""The part of a report that shows the device: power, clocks, heat, throttling."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edgepipe.telemetry.device_log import DeviceLog
from edgepipe.telemetry.figures import figure, percent
from edgepipe.telemetry.report_html import Html, table, tag, text
from edgepipe.telemetry.report_html import figure as drawing
from edgepipe.telemetry.report_lines import COLOURS, Line, Shade, lines_over_time
from edgepipe.telemetry.sensors.reading import Kind

Summary = Mapping[str, Any]

MOST_LINES = 8
"""Of one kind of channels, the highest so many are drawn."""

_DRAWN = (
    (Kind.POWER, 1.0, "Power in watts."),
    (Kind.CLOCK, 1e-6, "Clocks in megahertz."),
    (Kind.TEMPERATURE, 1.0, "Temperatures in degrees Celsius."),
)


def device_part(
    summary: Summary,
    log: DeviceLog | None,
    span_ns: tuple[int, int],
    measured_from_ns: int,
) -> Iterator[Html]:
    """Tables and drawings of the device.

    Args:
        summary: Of the run.
        log: The device log; None: there is none, or it is too much to draw.
        span_ns: What the other charts of the report show, in monotonic time.
        measured_from_ns: When the measured part began.
    """
    device = summary["device"]
    yield tag("h2", "Device")
    yield from _powers(device)
    yield from _throttling(summary)
    if log is not None:
        shades = [
            Shade(
                measured_from_ns + round(each["from_s"] * 1e9),
                measured_from_ns + round(each["until_s"] * 1e9),
            )
            for each in device["throttle"].get("episodes", ())
            if device["throttle"]["events"][each["cause"]]["takes_performance"]
        ]
        yield from _charts(log, span_ns, shades)


def _powers(device: Summary) -> Iterator[Html]:
    power = device["power"]
    if power["value"] is None:
        yield tag("p", f"Power: {power['reason']}.")
    boundaries = [device, *device["other_scopes"].values()]
    rows = [_power_row(each) for each in boundaries if each["power"]["value"]]
    if rows:
        yield table(
            "Energy within each boundary; figures of two boundaries are never added or"
            " compared. Net is above idle power. The error is an estimate without the"
            " sensor's own calibration.",
            (
                "boundary",
                "watts",
                "joules",
                "J a frame",
                "error",
                "net J a frame",
                "readings/s",
                "covered",
                "what is measured",
            ),
            rows,
        )
    for caution in power.get("cautions", ()):
        yield tag("p", f"Caution: {caution}.", "miss")


def _power_row(boundary: Summary) -> Sequence[object]:
    power, cost = boundary["power"], boundary["joules_per_frame"]
    error = cost["error_pct"]
    return (
        power["scope"],
        figure(power["value"]),
        figure(boundary["energy_j"]["gross"]),
        figure(cost["gross"]),
        None if error is None else f"± {figure(error)} %",
        figure(cost["net"]),
        figure(power["rate_hz"]),
        percent(power["coverage"]),
        power["rule"],
    )


def _throttling(summary: Summary) -> Iterator[Html]:
    throttle = summary["device"]["throttle"]
    if throttle["events"] is None:
        yield tag("p", f"Throttling: {throttle['reason']}.")
        return
    rows = [
        (cause, "yes" if each["takes_performance"] else "no", each["episodes"],
         each["events"], figure(each["seconds"]))
        for cause, each in throttle["events"].items()
    ]  # fmt: skip
    if rows:
        yield table(
            "What held clocks down, or explains low ones.",
            ("cause", "takes performance", "episodes", "counted events", "seconds"),
            rows,
        )
    else:
        yield tag("p", "Nothing that holds clocks down was seen.")
    for blind in throttle["not_observable"]:
        yield tag("p", f"Not observable here: {blind}.", "soft")
    yield from _frames_that_met_it(summary)


def _frames_that_met_it(summary: Summary) -> Iterator[Html]:
    rows = [
        (name, condition, each["frames"], percent(each["miss_ratio"]),
         *(figure(each["latency_ms"][key]) for key in ("p50", "p99", "max")))
        for name, stream in summary["streams"].items()
        for condition, each in stream.get("by_throttle", {}).items()
    ]  # fmt: skip
    if rows:
        yield table(
            "Frames that left while something took performance away, and the others;"
            " latency in milliseconds.",
            ("stream", "device", "frames", "missed", "p50", "p99", "max"),
            rows,
        )


def _charts(
    log: DeviceLog, span_ns: tuple[int, int], shades: Sequence[Shade]
) -> Iterator[Html]:
    for kind, factor, words in _DRAWN:
        lines = [
            Line(channel.name, times, values * factor)
            for key, channel in log.channels.items()
            if channel.kind is kind
            for times, values in [log.series(key)]
            if np.isfinite(values).any()
        ]
        if not lines:
            continue
        lines.sort(key=lambda line: -float(np.nanmax(line.values)))
        shown = lines[:MOST_LINES]
        more = f" {len(lines) - len(shown)} lower ones are left out." if lines[
            MOST_LINES:
        ] else ""  # fmt: skip
        key = " ".join(
            f'<span class="key k{n % COLOURS}"></span>{text(line.name)}'
            for n, line in enumerate(shown)
        )
        shading = " Shaded: something took performance away." if shades else ""
        caption = Html(f"{text(words + more + shading)} {key}")
        yield drawing(lines_over_time(shown, span_ns, shades, words), caption)
