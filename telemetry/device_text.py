"""What a summary says about the device, as short lines for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from edgepipe.telemetry.figures import figure, percent

Summary = Mapping[str, Any]

_TOLD_PCT = 100
"""With a larger error, energy above idle is not told from none."""
MOST_ZONES = 3
"""Of the temperatures, the highest so many are shown."""


def device_lines(summary: Summary) -> Iterator[tuple[str, str]]:
    """Heads and words: power, energy by frame, clocks, heat, throttling."""
    device = summary["device"]
    yield "power", _power(device["power"], device["joules_per_frame"])
    for scope, other in device["other_scopes"].items():
        yield "", f"{scope}: {_figures(other['power'], other['joules_per_frame'])}"
    for caution in device["power"].get("cautions", ()):
        yield "", f"caution: {caution}"
    yield from _levels(device)
    yield from _throttle(summary)


def _power(power: Summary, cost: Summary) -> str:
    if power["value"] is None:
        return str(power["reason"])
    return f"{_figures(power, cost)}; {power['rule']}"


def _figures(power: Summary, cost: Summary) -> str:
    """``12.3 W (module_input), 0.412 J a frame +- 0.8 %, 0.21 J above idle``."""
    if power["value"] is None:
        return str(power["reason"])
    words = [f"{figure(power['value'])} W ({power['scope']})"]
    if cost["gross"] is not None:
        error = cost["error_pct"]
        known = "" if error is None else f" +- {figure(error)} %"
        words.append(f"{figure(cost['gross'])} J a frame{known}")
    net, net_error = cost["net"], cost["net_error_pct"]
    if net is not None and (net_error is None or net_error < _TOLD_PCT):
        words.append(f"{figure(net)} J of it above idle")
    elif net is not None:
        words.append("no more than idle power as far as can be told")
    return ", ".join(words)


def _levels(device: Summary) -> Iterator[tuple[str, str]]:
    clocks: Summary = device["clocks"]["value"] or {}
    if clocks:
        words = (
            f"{name} {each['min_mhz']:.0f} to {each['max_mhz']:.0f}"
            for name, each in clocks.items()
        )
        yield "clocks (MHz)", ", ".join(words)
    zones: Summary = device["temperature"]["value"] or {}
    if zones:
        hottest = sorted(zones.items(), key=lambda zone: -zone[1]["max_c"])[:MOST_ZONES]
        words = (f"{name} at most {each['max_c']:.1f}" for name, each in hottest)
        yield "heat (C)", ", ".join(words)


def _throttle(summary: Summary) -> Iterator[tuple[str, str]]:
    events = summary["device"]["throttle"]["events"]
    if events is None:
        return
    bad = {cause: each for cause, each in events.items() if each["takes_performance"]}
    if not bad:
        yield "throttling", "none was seen" + _blind_spots(summary)
        return
    words = (
        f"{cause} {each['seconds']:.1f} s{_events(each['events'])}"
        for cause, each in bad.items()
    )
    yield "throttling", ", ".join(words)
    for name, stream in summary["streams"].items():
        if split := stream.get("by_throttle"):
            yield "", f"{name}: {_split(split)}"


def _events(count: int) -> str:
    return f" ({count} events)" if count else ""


def _blind_spots(summary: Summary) -> str:
    """That something cannot be seen here, so that none seen is not taken for none."""
    blind = summary["device"]["throttle"]["not_observable"]
    return f"; not observable here: {'; '.join(blind)}" if blind else ""


def _split(split: Summary) -> str:
    throttled, clear = split["throttled"], split["clear"]
    words = f"{throttled['frames']} frames met it, {_missed(throttled)}"
    if clear["frames"]:
        words += f"; {clear['frames']} did not, {_missed(clear)}"
    return words


def _missed(frames: Summary) -> str:
    p50 = frames["latency_ms"]["p50"]
    latency = "" if p50 is None else f" (p50 {figure(p50)} ms)"
    return f"{percent(frames['miss_ratio'])} missed{latency}"
