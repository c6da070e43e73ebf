"""The second networks, loaded: those that look at what the detector found."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from edgepipe.cards import card_of
from edgepipe.configs.schema import ClassifierConfig
from edgepipe.errors import ConfigError
from edgepipe.gates import pass_gate
from edgepipe.models.card import ModelCard
from edgepipe.models.classifier import Classifier
from edgepipe.models.engine import Engine
from edgepipe.models.heads import KEYPOINTS
from edgepipe.models.keypoints import KeypointFinder
from edgepipe.models.load import load_engine
from edgepipe.models.profile import warm_up
from edgepipe.networks import INFERENCE_THREADS
from edgepipe.stages.classify import Classify, FindKeypoints
from edgepipe.stages.crops import Crops

MOST_BATCH = 16
"""Most objects that go through a second network in one call."""


class Classifiers:
    """Every second network. Whoever opens them closes them.

    Args:
        configs: What to load.
        class_names: Labels of the detector.
        slots: Frames that are worked on at once.
        gate: What to do without a passed accuracy gate: ``require`` or ``warn``.

    Raises:
        EdgepipeError: One cannot be loaded, is no second one, or asks for a class that
            the detector does not know.
    """

    def __init__(
        self,
        configs: Sequence[ClassifierConfig],
        class_names: Sequence[str],
        *,
        slots: int,
        gate: str,
    ) -> None:
        self._gate = gate
        self._gates: dict[str, dict[str, Any]] = {}
        self.warnings: list[str] = []
        self.stages: dict[str, Classify | FindKeypoints] = {}
        """By name; shared by all streams."""
        self._loaded: dict[str, tuple[ModelCard, Engine, int]] = {}
        self._closers = ExitStack()
        try:
            for number, config in enumerate(configs):
                self._open(config, f"classifiers[{number}]", class_names, slots)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        config: ClassifierConfig,
        where: str,
        class_names: Sequence[str],
        slots: int,
    ) -> None:
        classes = _classes(config, where, class_names)
        card, warnings = card_of(config.path, config.card, config.precision, where)
        self.warnings += [f"{config.name}: {text}" for text in warnings]
        batch = min(config.max_crops, MOST_BATCH)
        engine = load_engine(
            card,
            config.precision,
            config.engine,
            requests=slots,
            threads=INFERENCE_THREADS,
            batch_max=batch,
        )
        self._closers.callback(engine.close)
        self._gates[config.name] = pass_gate(
            card,
            config.precision,
            config.card or config.path,
            self._gate,
            self.warnings,
        )
        self._loaded[config.name] = card, engine, batch
        crops = Crops(
            card,
            classes=classes,
            max_crops=config.max_crops,
            batch=batch,
            min_side=config.min_side,
            margin=config.margin,
        )
        self.stages[config.name] = _stage(card, engine, crops, config.name)

    def warm_up(self) -> None:
        """Run everything a few times on a drawn image."""
        for card, engine, batch in self._loaded.values():
            warm_up(engine, card, batch)

    def facts(self) -> dict[str, Any]:
        """What is known of them, for the summary; empty without any."""
        if not self._loaded:
            return {}
        return {
            "classifiers": {
                name: {
                    "name": card.name,
                    "precision": engine.info.precision,
                    "input": [card.height, card.width],
                    "engine": engine.info.engine,
                    "objects": self.stages[name].counts,
                    "gate": self._gates[name],
                }
                for name, (card, engine, _) in self._loaded.items()
            }
        }

    def close(self) -> None:
        """Release the engines; calling it again does nothing."""
        self._closers.close()


def _stage(
    card: ModelCard, engine: Engine, crops: Crops, name: str
) -> Classify | FindKeypoints:
    """What the card's head is for."""
    if card.head in KEYPOINTS:
        return FindKeypoints(
            KeypointFinder(card, engine), crops, card.class_names, name
        )
    return Classify(Classifier(card, engine), crops, card.class_names, name)


def _classes(
    config: ClassifierConfig, where: str, class_names: Sequence[str]
) -> set[int] | None:
    """Numbers of the classes at which it looks; None: all."""
    if config.classes is None:
        return None
    for index, label in enumerate(config.classes):
        if label not in class_names:
            known = ", ".join(class_names[:10]) + (
                ", ..." if len(class_names) > 10 else ""
            )
            raise ConfigError(
                "",
                f"{where}.classes[{index}]",
                f"the detector has no class {label!r} (it has: {known})",
            )
    return {k for k, label in enumerate(class_names) if label in config.classes}
