"""From an FP32 network to an INT8 file and its gate."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from edgepipe.errors import ModelError
from edgepipe.evaluation import judge
from edgepipe.models.card import ModelFile
from edgepipe.models.gate import GateResult
from edgepipe.models.quantise.sensitivity import Effect, Point, Search, effects
from edgepipe.models.quantise.table import CalibrationTable
from edgepipe.quantisation import Progress, Quantisation, Scheme
from edgepipe.rejudge import Rejudge
from edgepipe.samples import Sample, frames_in
from edgepipe.trials import Trials
from edgepipe.truth import FrameTruth

MOST_WIDENED = 8
"""Layers that are added one by one when a choice that was good enough on a part of the
frames fails on all of them."""
RANKED_ON = 24
"""Frames on which layers are ranked: each is tried on its own, so there are many
trials, and only their order counts."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a user wants it built."""

    methods: Sequence[str]
    """Of calibration; of several the one that loses least is taken."""
    max_drop: float
    """Points that the upper bound of the drop may reach."""
    scheme: Scheme
    engine: str
    source: str
    """The recording that is judged with."""
    labels: FrameTruth | None
    every: int = 1
    """Only each so-many-th frame of it."""
    keep: frozenset[str] = frozenset()
    """Layers that stay in FP32 in any case."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came out."""

    file: ModelFile
    """Where it is to lie, with its hash; it is not there yet."""
    content: bytes
    """What is to be in it."""
    table: CalibrationTable
    kept: frozenset[str]
    """Layers in FP32."""
    gate: GateResult


@dataclass
class Builder:
    """Builds one network; its card is not touched.

    Args:
        work: The network and what it is calibrated with.
        samples: Frames to try files on: a part of the judged recording.
        recipe: How.
        tables: Where calibrations lie.
        step: From the name of what begins to what is told of its progress.
        say: Told what was found out, line by line.
    """

    work: Quantisation
    samples: Sequence[Sample]
    recipe: Recipe
    tables: Path
    step: Callable[[str], Progress]
    say: Callable[[str], None]
    points: list[Point] = field(default_factory=list[Point])
    """Choices that were tried on the samples; the drop is the bound to be expected."""
    effects: tuple[Effect, ...] = ()
    """What each layer costs; empty if nobody had to know."""

    def build(self, path: Path) -> Built:
        """Calibrate, choose what stays in FP32, make the file and judge it.

        Args:
            path: Where the INT8 file is to go; what is there stays as it is.

        Returns:
            The file. Its gate says whether it passed; neither is written.

        Raises:
            EdgepipeError: A network cannot run, or there is nothing to judge by.
        """
        recipe = self.recipe
        with Rejudge(
            self.work,
            self.samples,
            recipe.labels,
            scheme=recipe.scheme,
            engine=recipe.engine,
            frames=frames_in(recipe.source) // recipe.every,
        ) as again:
            table = self._best_table(again)
            choices = self._choices(again, table)
            built = self._judged(path, table, next(choices))
            while not (built.gate.passed or _is_hopeless(built.gate)):
                self.say(f"  on all frames: {built.gate.reason}")
                kept = next(choices, None)
                if kept is None:
                    break
                built = self._judged(path, table, kept)
        return built

    def _best_table(self, again: Rejudge) -> CalibrationTable:
        """By the method with the least drop when every layer is INT8."""
        tables: list[tuple[float, CalibrationTable]] = []
        for method in self.recipe.methods:
            table = self.work.calibrate(
                method,
                self.tables,
                progress=self.step(f"calibrating ({method})"),
            )
            cost = again.expected(table, self.recipe.keep)
            self.say(f"{method:<11} {cost:6.2f} points lost")
            tables.append((cost, table))
        _, best = min(tables, key=lambda each: each[0])
        best.write(self.tables)
        return best

    def _choices(
        self, again: Rejudge, table: CalibrationTable
    ) -> Iterator[frozenset[str]]:
        """The layers to keep, the fewest first; more where that was not enough."""
        if again.expected(table, self.recipe.keep) <= self.recipe.max_drop:
            yield self.recipe.keep
        search = self._search(again, table)
        found = search.run()
        self.points = search.points
        if found is None:
            raise ModelError(
                f"no choice of layers in FP32 is known to lose at most"
                f" {self.recipe.max_drop:g} points on {len(self.samples)} frames: take"
                f" more (--frames), another recording (--judge), or allow more"
                f" (--max-drop)"
            )
        for point in chain([found], islice(search.widen(found), MOST_WIDENED)):
            if point.kept:
                kept = point.kept | self.recipe.keep
                self.say(f"layers in FP32: {len(kept)}: loses {point.drop:.2f} points")
                yield kept

    def _search(self, again: Rejudge, table: CalibrationTable) -> Search:
        keep = self.recipe.keep
        names = [layer.name for layer in self.work.layers if layer.weights]
        names = [name for name in names if name not in keep]
        images = [sample.image for sample in _some(self.samples, RANKED_ON)]
        progress = self.step("ranking layers")
        with Trials(
            self.work,
            table,
            images,
            engine=self.recipe.engine,
            scheme=self.recipe.scheme,
        ) as trials:
            self.effects = effects(
                names,
                lambda kept: trials.drop_of(kept | keep),
                lambda done: progress(done, len(names)),
            )
        for effect in self.effects[:5]:
            self.say(f"  {effect.layer}: {effect.drop:.2f} points alone")
        order = [effect.layer for effect in self.effects]
        self.step("choosing layers")(0, 0)
        return Search(
            order, lambda kept: again.expected(table, kept | keep), self.recipe.max_drop
        )

    def _judged(
        self, path: Path, table: CalibrationTable, kept: frozenset[str]
    ) -> Built:
        """Make the file, out of everybody's way, and ask the gate."""
        recipe = self.recipe
        with tempfile.TemporaryDirectory(prefix="edgepipe-build-") as folder:
            file = self.work.write(
                Path(folder) / path.name, table, kept, scheme=recipe.scheme
            )
            gate = judge(
                replace(self.work.card, files=(file, self.work.file)),
                recipe.source,
                labels=recipe.labels,
                max_drop=recipe.max_drop,
                engine=recipe.engine,
                every=recipe.every,
                progress=self.step("judging"),
            )
            content = file.path.read_bytes()
        return Built(replace(file, path=path), content, table, kept, gate)


def _is_hopeless(gate: GateResult) -> bool:
    """Whether more layers in FP32 cannot help: there is too little to see."""
    return gate.upper <= gate.allowed


def _some(samples: Sequence[Sample], wanted: int) -> Sequence[Sample]:
    """So many of the samples, spread evenly."""
    return samples[:: max(1, len(samples) // wanted)][:wanted]
