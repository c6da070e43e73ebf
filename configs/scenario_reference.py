"""docs/scenarios.md, made from the schema: run this module to print it."""

import sys

from edgepipe.configs.reference import sections
from edgepipe.configs.scenario_load import packaged, read
from edgepipe.configs.scenario_schema import ScenarioConfig

_INTRODUCTION = """\
# Scenarios

<!-- Made by `python -m edgepipe.configs.scenario_reference > docs/scenarios.md`. -->

`edgepipe simulate SCENARIO` plays a workload and its mishaps in virtual time and
compares what scheduling policies make of it. The scheduler is the one that runs live;
cameras, networks and clocks are numbers. All policies see the same frames with the same
costs, drawn from the seed.

```console
$ edgepipe simulate --list
$ edgepipe simulate overload
$ edgepipe simulate mine.yaml --policy edf slack --seed 1 2 3 --duration 10m --json
```

These ship; each is a file in `configs/scenarios/`:

{table}

## One of your own

```yaml
{example}```

Service times are those of a job alone at full clock. Equal streams are named `cam-0`,
`cam-1`, ... Keys that begin with `x-` are yours, and what is refused is refused as in a
[configuration](configuration.md#what-is-refused).

The summary that a simulation leaves behind is described in
[simulation.md](simulation.md).

## Keys
"""

EXAMPLE = """\
# two cameras and a network that now and then takes four times as long
version: 1
about: two cameras, replayed times
duration: 30s
resources:
  - {name: cpu, slots: 2}
  - {name: gpu}
streams:
  - id: cam
    count: 2
    fps: 30
    deadline: 50ms
    contract: 9 of 10
    steps:
      - {name: decode, resource: cpu, replay: [3.1ms, 2.8ms, 5.4ms]}
      - name: detect
        resource: gpu
        time: 11ms
        spread: 0.05
        network: true
        batch: {max: 4, each: 0.6}
        slow: {chance: 0.02, factor: 4}
    ladder:
      - {name: full}
      - {name: small, value: 0.85, cost: 0.45}
clocks:
  - {resource: gpu, at: 10s, clock: 0.5, reported_after: 500ms}
  - {resource: gpu, at: 20s, clock: 1}
stalls:
  - {stream: cam-1, at: 5s, length: 400ms}
"""
"""A scenario that uses most of what there is; a test plays it."""


def document() -> str:
    """The whole document."""
    lines = ["| name | what |", "| --- | --- |"]
    lines += [f"| `{name}` | {read(name).config.about} |" for name in packaged()]
    introduction = _INTRODUCTION.format(table="\n".join(lines), example=EXAMPLE)
    return "\n".join([introduction, *sections(ScenarioConfig, "")]).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
