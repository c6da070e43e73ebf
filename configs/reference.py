"""docs/configuration.md, made from the schema: run this module to print it."""

import sys
from collections.abc import Iterator
from inspect import cleandoc

from pydantic.fields import FieldInfo

from edgepipe.configs import section, units
from edgepipe.configs.characters import MAX_BYTES
from edgepipe.configs.compose import MAX_DEPTH
from edgepipe.configs.kinds import Kind
from edgepipe.configs.schema import Config
from edgepipe.configs.section import Section
from edgepipe.configs.strict_yaml import MAX_VALUES

_INTRODUCTION = """\
# Configuration

<!-- Made by `python -m edgepipe.configs.reference > docs/configuration.md`. -->

A configuration is one YAML file. Give its path or the name of a packaged one:

```console
$ edgepipe config check robot.yaml    # what is wrong, all of it in one run
$ edgepipe config show robot.yaml     # every key with the value it will have
$ edgepipe config schema              # JSON Schema, for your editor
```

What contains a slash or ends in `.yaml` is a path; any other word is looked up among
the packaged configurations first, then among files. The effective configuration and
its hash are kept with every run.

## A complete example

```yaml
{example}```

## Keys
"""

EXAMPLE = """\
version: 1

x-road: &road                  # keys that begin with x- are yours
  deadline: 100ms
  on_miss: drop

streams:
  - id: front
    <<: *road
    source: {uri: "${FRONT_URI:-sample:bikes}", loop: true}
    criticality: critical
    queue: {capacity: 2, overflow: drop_oldest}
    contract: 9 of 10          # of any ten frames in a row, nine in time
    weight: 2
    branches:                  # the same pictures once more, with time to look closely
      - {id: front-closely, variant: precise, deadline: 500ms, criticality: background}
  - id: rear
    <<: *road
    source: {uri: "synthetic:?seed=1&width=320&height=192&fps=30"}
    deadline: 1.5s             # instead of the one in x-road
    on_miss: deliver_late
    criticality: background
    min_service: 2s
    mode: latest_only
    max_rate: 10

model:
  path: nanodet-g
  precision: int8
  engine: auto
  score: 0.4
  variants:                    # cheaper networks for the ladder below
    - {name: small, card: "models/nanodet-g-320.yaml", score: 0.4}
    - {name: precise, precision: fp32}

tracker: {kind: iou, iou: 0.3, max_age: 1s, min_hits: 2}

scheduler:
  policy: auto
  ladder:                      # given up in this order when time is short
    - {stride: 2}
    - {variant: small, value: 0.85}          # half the frames, the small network
    - {track_only: 2, value: 0.7}            # and every other of those without it
  resources: {cpu: 2}
  fuse: true
  max_in_flight: 8

telemetry: {dir: runs, samples: 1000000}

sinks:
  - {kind: jsonl, path: results.jsonl}
  - {kind: mot, path: "tracks/{stream}.txt"}

run: {warm_up: 2s, duration: 1h, stop_within: 5s}
"""
"""A configuration that uses most of what there is; a test reads it."""

_UNITS = f"""\
## Durations

A duration is a number with one of the units {units.DURATION.unit_list}, for example
{units.DURATION.examples}; the unit `m` is the minute. One blank may stand between the
number and its unit. There may be several parts from large to small (`1m30s`), the last
one with a fraction. Durations are exact down to 1 ns. A number without its unit is an
error, and so are a sign, an exponent and any other spelling of a unit (`1H`, `1hr`).
"""

_RULES = f"""\
## Variables

Inside a value `${{NAME}}` is replaced by an environment variable and
`${{NAME:-default}}` by the default if the variable is not set or empty. A variable
that is not set and has no default is an error. `$$` stands for one `$`; a dollar before
anything else is just a dollar. Where text is wanted the result is text; everywhere else
it is read as if it had been typed there. Inside `{{ }}` and `[ ]` the whole value must
be quoted: `{{capacity: "${{CAPACITY}}"}}`.

## `--set`

`--set streams[0].deadline=50ms` changes one value after the file is read; it can be
given several times. The value is YAML, so `--set sinks=[]` and
`--set 'sinks[0]={{kind: jsonl, path: out.jsonl}}'` work. A list takes the index of an
item that it has, or the next one. What `--set` changed is checked like the rest;
messages about it begin with `--set` instead of a file.

## What is refused

All mistakes are reported in one run, one line each, as
`file:line:column: path.of.the.key: what is wrong`.

- A key given twice, an unknown key at any depth (unless it begins with `x-`), a missing
  key that is required, a value of the wrong type.
- `yes`, `no`, `on` and `off` where `true` or `false` is wanted: they are words, as in
  YAML 1.2. Where text is wanted the text stays what was typed: the ids `no`, `0755`,
  `1_0` and `12:30` need no quotes. Only `null`, `~` and nothing at all must be quoted
  to be text.
- Whole numbers with leading zeros or underscores; infinite numbers and NaN; numbers in
  quotes.
- A duration without its unit.
- Two streams with one id, two sinks with one file.
- A variant that no rung of the ladder runs or that does not exist; a rung that does the
  same work as one above it; a track-only rung without a tracker; a ladder with a policy
  that does not use it, and `slack+ladder` without one.
- A tab in the indentation; a no-break space or another exotic, invisible or control
  character outside a comment (an escape in double quotes, `"\\u00a0"`, may stand for
  it); text that is not UTF-8. A byte order mark and Windows line ends are fine.
- No blank after the colon (`loop:true`).
- An empty file, several documents, a top level that is not a mapping, tags (`!!str`).
- More than {MAX_BYTES // 1024} KiB of text, more than {MAX_DEPTH} levels, or more than
  {MAX_VALUES} values once every alias (`*name`) is filled in. Anchors, aliases and
  `<<` are welcome below that.
"""


def document() -> str:
    """The whole document."""
    parts = [
        _INTRODUCTION.format(example=EXAMPLE),
        *sections(Config, ""),
        _UNITS,
        _RULES,
    ]
    return "\n".join(parts)


def sections(part: type[Section], name: str) -> Iterator[str]:
    """A heading and a table for a section and for each one in it."""
    yield _table(part, name)
    for key, field in section.keys(part).items():
        below = f"{name}.{key}" if name else key
        below += "[]" if section.holds_many(field) else ""
        for inner in section.parts(field.annotation):
            yield from sections(inner, below)


def _table(part: type[Section], name: str) -> str:
    tag = section.tag(part)
    title = f"`{name}`" if name else "Top level"
    title += f" of kind `{tag}`" if tag else ""
    lines = [
        f"### {title}",
        "",
        cleandoc(part.__doc__ or ""),
        "",
        "| key | type | default | meaning |",
        "| --- | --- | --- | --- |",
        *(_row(key, field) for key, field in section.keys(part).items()),
        "",
    ]
    return "\n".join(lines)


def _row(key: str, field: FieldInfo) -> str:
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{key}` | {_type(field)} | {_default(field)} | {meaning} |"


def _type(field: FieldInfo) -> str:
    for item in field.metadata:
        if isinstance(item, Kind):
            return item.wanted
    return "a list of mappings" if section.holds_many(field) else "a mapping"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, Section):
        return "the defaults below"
    if field.default is None:
        return "`null`"
    kinds = [item for item in field.metadata if isinstance(item, Kind)]
    value = kinds[0].write(field.default) if kinds else list(field.default)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(document())
