"""Plans beside their models, each replaced only when the next one is whole."""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.plan import (
    Judgement,
    PlanFacts,
    judge,
    read_facts,
    record,
)

Build = Callable[[], tuple[bytes, PlanFacts]]
"""Makes a plan, and says what it was made from and for."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plan that may be loaded."""

    path: Path
    facts: PlanFacts
    warning: str
    """What speaks against it, with the remedy; empty: nothing."""
    built: bool
    """Whether it was built just now."""


class PlanCache:
    """The plan of one ONNX file.

    ``X.onnx`` has the record ``X.plan.json`` beside it, which names the plan: a file of
    its own for each build, so that record and plan change in one step.

    Args:
        model: The ONNX file.
        rebuild: The command that makes the plan anew, for messages.
    """

    def __init__(self, model: Path, rebuild: str) -> None:
        self._model = model
        self._rebuild = rebuild
        self.record = model.with_suffix(".plan.json")

    def find(self, here: PlanFacts) -> Found:
        """The plan, if it fits this machine and this model.

        Raises:
            EngineError: There is none or it does not fit; says both values and what
                to do.
        """
        if not self.record.exists():
            raise EngineError(
                f"{self._model}: there is no plan for it: build it with "
                f"{self._rebuild!r}"
            )
        facts = read_facts(self.record)
        judgement = judge(facts, here)
        if not judgement.load:
            raise EngineError(self._say(judgement))
        warning = self._say(judgement) if judgement.warnings else ""
        return Found(self._plan(), facts, warning, built=False)

    def find_or_build(self, here: PlanFacts, build: Build, *, rebuild: bool) -> Found:
        """The plan, or a new one where it is missing or does not fit.

        Args:
            here: This machine and this model.
            build: Makes a plan.
            rebuild: Whether it may be built; otherwise as :meth:`find`.

        Raises:
            EngineError: As :meth:`find`, or building failed; the old plan is still
                there then.
        """
        try:
            return self.find(here)
        except EngineError:
            if not rebuild:
                raise
        return self.store(*build())

    def store(self, plan: bytes, facts: PlanFacts) -> Found:
        """Put a plan into the place of the one before.

        Raises:
            EngineError: It cannot be written; the old plan is still there then.
        """
        digest = hashlib.sha256(plan).hexdigest()
        path = self._model.with_suffix(f".{digest[:16]}.plan")
        data = {**record(facts), "plan": path.name, "plan_sha256": digest}
        old = self._named()
        try:
            write_whole(path, plan)
            write_whole(self.record, (json.dumps(data, indent=2) + "\n").encode())
        except OSError as error:
            raise EngineError(f"{path}: cannot write the plan: {error}") from error
        if old is not None and old != path:
            with suppress(OSError):  # it is in nobody's way
                old.unlink()
        return Found(path, facts, "", built=True)

    def _say(self, judgement: Judgement) -> str:
        return judgement.message(self._named() or self.record, self._rebuild)

    def _named(self) -> Path | None:
        """The file that the record names; None: it names none."""
        try:
            name = json.loads(self.record.read_text())["plan"]
            return self._model.parent / Path(name).name
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _plan(self) -> Path:
        """The plan's file, if it is whole."""
        path = self._named()
        if path is None:
            raise EngineError(
                f"{self.record}: it names no plan: build it with {self._rebuild!r}"
            )
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            wanted = json.loads(self.record.read_text()).get("plan_sha256")
        except OSError as error:
            reason = error.strerror or str(error)
            raise EngineError(
                f"{path}: cannot read the plan ({reason}): build it with "
                f"{self._rebuild!r}"
            ) from error
        if digest != wanted:
            raise EngineError(
                f"{path}: the plan has sha256 {digest}, its record says {wanted}: "
                f"build it with {self._rebuild!r}"
            )
        return path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
