"""The model and its variants, loaded: what makes their input, and what runs them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from edgepipe.cards import card_of
from edgepipe.configs.ladder import FULL, RungPlan
from edgepipe.configs.schema import ModelConfig
from edgepipe.errors import ConfigError, ModelError
from edgepipe.gates import pass_gate
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.engine import Engine
from edgepipe.models.heads import suppresses
from edgepipe.models.load import load_engine
from edgepipe.models.profile import batch_times_ns, warm_up
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.stage import Stage
from edgepipe.scheduler.job import PERMILLE
from edgepipe.stages.by_rung import BatchByRung, ByRung
from edgepipe.stages.convert import Convert
from edgepipe.stages.infer import Infer
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.telemetry.clock import MonotonicClock

T = TypeVar("T")

INFERENCE_THREADS = 1
"""For one frame or batch. Parallelism comes from the scheduler's slots: a library that
adds threads of its own takes them from another frame."""


@dataclass(frozen=True, slots=True)
class Network:
    """One variant of the model, loaded."""

    card: ModelCard
    engine: Engine
    infer: Infer
    """Shared by all streams."""
    ring: BufferRing
    """Where its input is lent from; variants of one input size share it."""
    gate: Mapping[str, Any]
    """Whether it has passed its accuracy gate, for the summary."""

    def convert(self) -> Convert:
        """A stage that makes the network's input; each stream has its own."""
        card = self.card
        return Convert(
            self.ring, card.height, card.width, card.color, card.align, card.pad_value
        )


class Networks:
    """The model and its variants. Whoever opens them closes them.

    Args:
        config: What to load.
        rungs: What runs on which rung.
        slots: Frames or batches that are inferred at once.
        in_flight: Most frames of all streams between source and sinks.

    Raises:
        EdgepipeError: One of them cannot be loaded, or does not fit the others.
    """

    def __init__(
        self,
        config: ModelConfig,
        rungs: Sequence[RungPlan],
        *,
        slots: int,
        in_flight: int,
    ) -> None:
        self.batch_max = max(rung.batch_max for rung in rungs)
        """Most frames in a batch on any rung."""
        self.warnings: list[str] = []
        self._rungs = rungs
        self._on_rungs = {rung.variant for rung in rungs} - {FULL}
        self._rings: dict[tuple[int, int], BufferRing] = {}
        self._closers = ExitStack()
        try:
            self.by_variant = {
                name: self._open(model, name, slots, in_flight)
                for name, model in _models(config).items()
            }
        except BaseException:
            self.close()
            raise
        self.full = self.by_variant[FULL]
        self._check_classes()
        _check_nms(config, [network.card for network in self.by_variant.values()])
        self.is_profiled = self.batch_max > 1 or len(self.by_variant) > 1
        self._times_ns = self._profile() if self.is_profiled else {}

    def close(self) -> None:
        """Release the engines; calling it again does nothing."""
        self._closers.close()

    def least_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture has in the largest network's input."""
        placements = [
            letterbox_for(
                width,
                height,
                network.card.width,
                network.card.height,
                network.card.align,
            )
            for network in self.by_variant.values()
        ]
        return max(p.width for p in placements), max(p.height for p in placements)

    def warm_up(self) -> None:
        """Run everything a few times on a drawn image."""
        for network in self.by_variant.values():
            warm_up(network.engine, network.card, self.batch_max)

    def facts(self) -> dict[str, Any]:
        """What is known of the gate and of variants, for the summary."""
        gate = {"gate": self.full.gate}
        if len(self.by_variant) == 1:
            return gate
        return gate | {
            "variants": {
                name: {
                    "name": network.card.name,
                    "precision": network.engine.info.precision,
                    "input": [network.card.height, network.card.width],
                    "engine": network.engine.info.engine,
                    "frame_ms": self._times_ns[name][0] / 1e6,
                    "gate": network.gate,
                }
                for name, network in self.by_variant.items()
            }
        }

    # --- stages -----------------------------------------------------------------------

    def convert(self, full: str = FULL) -> Stage:
        """What makes a frame's network input, on whatever rung it is.

        Args:
            full: The variant that the stream runs at full quality.
        """
        if len(self._rungs) == 1:
            return self.by_variant[full].convert()
        by_variant = {name: each.convert() for name, each in self.by_variant.items()}
        return ByRung({rung.name: by_variant[_own(rung, full)] for rung in self._rungs})

    def infer(self, full: str = FULL) -> Stage:
        """What runs the network for which the input was made; ``full`` as above."""
        if len(self._rungs) == 1:
            return self.by_variant[full].infer
        return BatchByRung(
            {rung.name: self.by_variant[_own(rung, full)].infer for rung in self._rungs}
        )

    # --- what they cost ---------------------------------------------------------------

    def costs_permille(self, full: str = FULL) -> Mapping[str, int]:
        """Time of each variant for a frame, in thousandths of that of ``full``.

        All are different, and only that of ``full`` is 1000: by them the scheduler
        tells the variants apart. They hold until it has measured.
        """
        costs = {FULL: PERMILLE, full: PERMILLE}
        for name in self.by_variant:
            if name in costs:
                continue
            full_ns, own_ns = (self._times_ns[each][0] for each in (full, name))
            cost = max(1, own_ns * PERMILLE // max(1, full_ns))
            while cost in costs.values():
                cost += 1
            costs[name] = cost
        return costs

    def batch_curve(self, full: str = FULL) -> tuple[int, ...]:
        """Time of a batch of 1, 2, ... frames in thousandths of one frame's."""
        times_ns = self._times_ns.get(full, ())
        return tuple(
            max(1, time_ns * PERMILLE // max(1, times_ns[0])) for time_ns in times_ns
        )

    def _profile(self) -> dict[str, tuple[int, ...]]:
        """Time of a batch of 1, 2, ... frames by variant, ns; all is warm then."""
        self.warm_up()
        # The time of the machine, whatever time the pipeline lives in.
        clock = MonotonicClock()
        times_ns = {
            name: batch_times_ns(each.engine, each.card, self.batch_max, clock)
            for name, each in self.by_variant.items()
        }
        full_ns = times_ns[FULL][0]
        self.warnings += [
            f"variant {name!r} takes {took_ns / 1e6:.1f} ms for a frame and the model"
            f" itself {full_ns / 1e6:.1f}: no rung gains by it"
            for name, (took_ns, *_) in times_ns.items()
            if took_ns >= full_ns and name in self._on_rungs
        ]
        return times_ns

    # --- loading ----------------------------------------------------------------------

    def _open(
        self, model: ModelConfig, name: str, slots: int, in_flight: int
    ) -> Network:
        card = self._read_card(model)
        engine = load_engine(
            card,
            model.precision,
            model.engine,
            requests=slots,
            threads=INFERENCE_THREADS,
            batch_max=self.batch_max,
        )
        self._closers.callback(engine.close)
        named = model.card or model.path
        gate = pass_gate(card, model.precision, named, model.gate, self.warnings)
        size = card.height, card.width
        if size not in self._rings:
            self._rings[size] = BufferRing(in_flight, *size)
        recorded_as = model.precision if name == FULL else name
        infer = Infer(_detector(model, card, engine), recorded_as, self.batch_max)
        return Network(card, engine, infer, self._rings[size], gate)

    def _check_classes(self) -> None:
        """A class is a number: it must mean the same on every rung."""
        for name, network in self.by_variant.items():
            if network.card.class_names != self.full.card.class_names:
                self.close()
                raise ModelError(
                    f"variant {name!r}: model {network.card.name!r} names other classes"
                    f" than {self.full.card.name!r}"
                )

    def _read_card(self, model: ModelConfig) -> ModelCard:
        card, warnings = card_of(model.path, model.card, model.precision, "model")
        self.warnings += warnings
        return card


def _own(rung: RungPlan, full: str) -> str:
    """The variant of a rung, for a stream with ``full`` at full quality."""
    return full if rung.variant == FULL else rung.variant


def _models(config: ModelConfig) -> dict[str, ModelConfig]:
    """The model and its variants, each as if it were the only one."""
    models = {FULL: config}
    for variant in config.variants:
        path = variant.path if variant.path is not None else config.path
        same = variant.path is None
        models[variant.name] = config.model_copy(
            update={
                "path": path,
                "precision": _or(variant.precision, config.precision),
                "card": _or(variant.card, config.card if same else None),
                "score": variant.score,
            }
        )
    return models


def _detector(model: ModelConfig, card: ModelCard, engine: Engine) -> Detector:
    return Detector(
        card,
        engine,
        score=_or(model.score, card.score_threshold),
        iou=_or(model.iou, card.iou_threshold),
        max_detections=_or(model.max_detections, card.max_detections),
        class_agnostic=_or(model.class_agnostic, card.class_agnostic),
    )


def _check_nms(config: ModelConfig, cards: Sequence[ModelCard]) -> None:
    """Refuse words about NMS where no network needs it.

    Raises:
        ConfigError: Names the key and the head.
    """
    if any(suppresses(card.head) for card in cards):
        return
    for key in ("iou", "class_agnostic"):
        if getattr(config, key) is not None:
            text = f"head {cards[0].head} needs no NMS: leave it out"
            raise ConfigError("", f"model.{key}", text)


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given
