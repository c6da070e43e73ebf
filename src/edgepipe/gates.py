"""Whether an INT8 network may run: only one that has passed its accuracy gate."""

from typing import Any

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.gate import GateCheck, check_gate, not_fp32

REQUIRE = "require"
NOT_NEEDED = {"passed": None, "reason": "fp32 is what others are judged against"}


def pass_gate(
    card: ModelCard, precision: str, named: str, mode: str, warnings: list[str]
) -> dict[str, Any]:
    """What the summary says of a network's gate.

    Args:
        card: Of the network.
        precision: Which of its files is to run; FP32 needs no gate, if it is FP32.
        named: What a person calls the card.
        mode: ``require`` or ``warn``.
        warnings: Is told what is wrong, if that is to be no more than a warning.

    Raises:
        ModelError: There is no gate, it is for other files, or it was not passed.
    """
    file = next((each for each in card.files if each.precision == precision), None)
    if file is None or not file.path.exists():
        return dict(NOT_NEEDED)  # what is not there is found out by whoever loads it
    problem = "" if precision == "int8" else not_fp32(file)
    if precision != "int8" and not problem:
        return dict(NOT_NEEDED)
    check = GateCheck(None, problem) if problem else check_gate(card, file, named)
    if check.problem and mode == REQUIRE:
        raise ModelError(f"{check.problem} (or set model.gate to warn)")
    if check.problem:
        warnings.append(check.problem)
    return check.summary()
