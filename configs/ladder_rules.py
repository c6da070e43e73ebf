"""Rules between the ladder, the variants it runs, the tracker and the policy."""

from collections.abc import Iterator, Mapping, Sequence

from edgepipe.configs.ladder import FULL, rungs
from edgepipe.configs.problems import Marks, Path, Problem
from edgepipe.configs.scalars import is_list, is_mapping, native, show
from edgepipe.configs.schema import AUTO
from edgepipe.scheduler.policy import BY_NAME

_WORK = ("stride", "variant", "track_only", "batch_max")
_NO_MAPPING: Mapping[str, object] = {"stride": "an item that is no mapping"}
Found = Iterator[tuple[Path, str]]
Users = Sequence[tuple[Path, Mapping[str, object]]]
"""What may name a variant, with its place."""


def check(top: Mapping[str, object], streams: Users, marks: Marks) -> Iterator[Problem]:
    """Every broken rule of the plain data; what has the wrong shape is passed over."""
    for path, text in _broken(top, streams):
        yield Problem(marks.value(path), path, text)


def _broken(top: Mapping[str, object], streams: Users) -> Found:
    scheduler, model = _mapping(top, "scheduler"), _mapping(top, "model")
    entries = _mappings(scheduler, "ladder")
    names = [native(variant.get("name")) for variant in _mappings(model, "variants")]
    yield from _policy(native(scheduler.get("policy", AUTO)), bool(entries))
    places: list[Path] = [("scheduler", "ladder", n) for n in range(len(entries))]
    users = [*zip(places, entries, strict=True), *streams]
    yield from _unknown(names, users)
    yield from _variants(names, [user.get("variant") for _, user in users])
    yield from _tracker(_mapping(top, "tracker"), entries)
    yield from _repeated(model, entries)


def _unknown(names: Sequence[object], users: Users) -> Found:
    """Whoever names a variant names one that there is."""
    known = ", ".join(str(each) for each in dict.fromkeys((FULL, *names)))
    for path, user in users:
        name = native(user.get("variant"))
        if isinstance(name, str) and name not in (FULL, *names):
            text = f"no variant {show(name)} in model.variants, there are {known}"
            yield (*path, "variant"), text


def _policy(policy: object, has_ladder: bool) -> Found:
    """A policy that climbs ladders needs one, and a ladder needs such a policy."""
    place: Path = ("scheduler", "policy")
    if not isinstance(policy, str) or policy not in BY_NAME:
        return
    if BY_NAME[policy].ladder and not has_ladder:
        yield place, f"{policy} needs scheduler.ladder, and there is none"
    elif has_ladder and not BY_NAME[policy].ladder:
        yield place, f"{policy} does not use scheduler.ladder: leave one of them out"


def _variants(names: Sequence[object], used: Sequence[object]) -> Found:
    """Each variant has a name of its own and is used: loading it is not free."""
    wanted = [native(name) for name in used]
    for number, name in enumerate(names):
        place: Path = ("model", "variants", number, "name")
        if not isinstance(name, str):
            continue
        if name == FULL:
            yield place, f"{FULL} is what a stream runs at full quality"
        elif name in names[:number]:
            yield place, f"variant {show(name)} is given twice"
        elif name not in wanted:
            yield place, f"no rung and no stream runs variant {show(name)}"


def _tracker(
    tracker: Mapping[str, object], entries: Sequence[Mapping[str, object]]
) -> Found:
    """Without a tracker nobody knows where things are that were not looked for."""
    if tracker.get("kind") != "none":
        return
    for number, entry in enumerate(entries):
        every = native(entry.get("track_only"))
        if isinstance(every, int) and every > 1:
            place: Path = ("scheduler", "ladder", number, "track_only")
            yield place, "a track-only frame needs a tracker, and tracker.kind is none"


def _repeated(
    model: Mapping[str, object], entries: Sequence[Mapping[str, object]]
) -> Found:
    """Every rung is less work than those above it, or at least other work."""
    plain = [
        {key: native(entry.get(key)) for key in _WORK if key in entry}
        for entry in entries
    ]
    batch_max = native(model.get("batch_max", 1))
    if not isinstance(batch_max, int) or not all(map(_is_fit, plain)):
        return
    planned = rungs(plain, batch_max)
    for number in range(1, len(planned)):
        for above in planned[:number]:
            if planned[number].work == above.work:
                place: Path = ("scheduler", "ladder", number - 1)
                yield place, f"the work is the same as on rung {show(above.name)}"
                break


def _is_fit(said: Mapping[str, object]) -> bool:
    """Whether every value has the type that the schema asks for."""
    return all(
        value is None or type(value) is (str if key == "variant" else int)
        for key, value in said.items()
    )


def _mapping(around: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = around.get(key)
    return found if is_mapping(found) else {}


def _mappings(around: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = around.get(key)
    listed = found if is_list(found) else []
    # An item that is none keeps its place, so that the numbers stay right.
    return [item if is_mapping(item) else _NO_MAPPING for item in listed]
