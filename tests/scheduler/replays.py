"""What a core was told, told to a fresh one under conditions that must not matter."""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar, cast
from unittest.mock import patch

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Alarm,
    ClockChanged,
    Event,
    Kind,
    SetTimer,
)
from edgepipe.scheduler.job import PERMILLE, Resource, StreamSpec
from edgepipe.scheduler.policy import Policy

Log = list[tuple[int, Event, list[Action]]]
"""What the core was told, when, and what it answered."""
Change = Callable[[int], int]
T = TypeVar("T")

MOMENTS = {
    "at_ns",
    "capture_ns",
    "deadline_ns",
    "delivered_ns",
    "latest_start_ns",
    "release_ns",
}
"""Fields of events and actions that are points in time; all others are lengths."""
LENGTHS_AS_DETAIL = {Kind.TIME_WENT_BACK, Kind.TIMESTAMP_STEP}
"""Alarms whose detail is a length; that of the others is a sequence."""
ABOUT_NO_STREAM = {Kind.TIME_WENT_BACK, Kind.UNKNOWN_RESOURCE}
SHIFT_NS = 123_456_789_012_345_678
SCALE = 3


def check_same(
    log: Log, specs: Sequence[StreamSpec], resources: list[Resource], policy: Policy
) -> None:
    """The same events at the same times: the same actions."""
    core = Scheduler(specs, resources, policy)
    core.initial_grants()
    for at_ns, event, actions in log:
        _compare(event, core.handle(at_ns, event), actions)


def check_shifted(
    log: Log, specs: Sequence[StreamSpec], resources: list[Resource], policy: Policy
) -> None:
    """It does not matter when the clock began to count."""

    def moment(at_ns: int) -> int:
        return at_ns + SHIFT_NS

    def length(time_ns: int) -> int:
        return time_ns

    core = Scheduler(specs, resources, policy)
    core.initial_grants()
    for at_ns, event, actions in log:
        answer = core.handle(moment(at_ns), retimed(event, moment, length))
        _compare(event, answer, [retimed(a, moment, length) for a in actions])


def check_scaled(
    log: Log, specs: Sequence[StreamSpec], resources: list[Resource], policy: Policy
) -> None:
    """Times are compared with times only: in another unit the decisions are the same.

    Unless a clock was changed, which times are divided by, or the ladder takes their
    mean: these are rounded.
    """

    def scaled(time_ns: int) -> int:
        return time_ns * SCALE

    clocks = [e.permille for _, e, _ in log if isinstance(e, ClockChanged)]
    if policy.ladder or any(permille != PERMILLE for permille in clocks):
        return
    with scaled_constants():
        scaled_specs = [retimed_spec(spec, scaled) for spec in specs]
        core = Scheduler(scaled_specs, resources, policy)
        core.initial_grants()
        for at_ns, event, actions in log:
            answer = core.handle(scaled(at_ns), retimed(event, scaled, scaled))
            expected = [retimed(action, scaled, scaled) for action in actions]
            _compare(event, _untimed(answer), _untimed(expected))


def check_renamed(
    log: Log, specs: Sequence[StreamSpec], resources: list[Resource], policy: Policy
) -> None:
    """Names are names: they sort in another order now, and nothing else changes."""
    core = Scheduler([renamed(spec) for spec in specs], resources, policy)
    core.initial_grants()
    for at_ns, event, actions in log:
        answer = core.handle(at_ns, renamed(event))
        _compare(event, answer, [renamed(action) for action in actions])


def _compare(event: Event, answer: list[Action], expected: list[Action]) -> None:
    assert answer == expected, f"{event}:\n{answer}\ninstead of\n{expected}"


def _untimed(actions: Sequence[Action]) -> list[Action]:
    """All but timers: they are set to a nanosecond after a moment, in any unit.

    What happens when they fire is in the log, too.
    """
    return [action for action in actions if not isinstance(action, SetTimer)]


@contextmanager
def scaled_constants() -> Generator[None, None, None]:
    """Times that are constants of the scheduler's modules are scaled as well."""
    modules = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("edgepipe.scheduler.")
    ]
    patches = [
        patch.object(module, name, value * SCALE)
        for module in modules
        for name, value in vars(module).items()
        if name.isupper() and name.endswith("_NS") and isinstance(value, int)
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def retimed(value: T, moment: Change, length: Change) -> T:
    """The event or action with every time in it changed."""
    if isinstance(value, StreamSpec):
        return cast(T, retimed_spec(value, length))
    if not isinstance(value, tuple):
        return value
    if not hasattr(cast(object, value), "_fields"):
        items = cast(tuple[object, ...], value)
        return cast(T, tuple(retimed(item, moment, length) for item in items))
    named = cast(Any, value)
    changes: dict[str, object] = {}
    for name, item in named._asdict().items():
        if item is not None and name in MOMENTS:
            changes[name] = moment(item)
        elif item is not None and name.endswith("_ns"):
            changes[name] = length(item)
        elif not isinstance(item, int):
            changes[name] = retimed(item, moment, length)
    if isinstance(value, Alarm) and value.kind in LENGTHS_AS_DETAIL:
        changes["detail"] = length(value.detail)
    return cast(T, named._replace(**changes))


def retimed_spec(spec: StreamSpec, length: Change) -> StreamSpec:
    """The stream with every length of time in it changed."""
    changes: dict[str, Any] = {
        each.name: length(getattr(spec, each.name))
        for each in fields(spec)
        if each.name.endswith("_ns")
    }
    steps = tuple(replace(step, cost_ns=length(step.cost_ns)) for step in spec.steps)
    return replace(spec, steps=steps, **changes)


def renamed(value: T) -> T:
    """The value with the streams' names reversed in their order."""
    if isinstance(value, StreamSpec):
        return cast(T, replace(value, id=_new_name(value.id)))
    if not isinstance(value, tuple):
        return value
    if not hasattr(cast(object, value), "_fields"):
        items = cast(tuple[object, ...], value)
        return cast(T, tuple(renamed(item) for item in items))
    named = cast(Any, value)
    changes: dict[str, object] = {}
    for name, item in named._asdict().items():
        is_stream = name in {"stream", "blocked_by"} and item != ""
        if isinstance(value, Alarm):
            is_stream = name == "subject" and value.kind not in ABOUT_NO_STREAM
        if is_stream:
            changes[name] = _new_name(item)
        elif isinstance(item, tuple | StreamSpec):
            changes[name] = renamed(cast(object, item))
    return cast(T, named._replace(**changes))


def _new_name(name: str) -> str:
    return "".join(chr(0x7F - ord(letter) + 0x60) for letter in name)
