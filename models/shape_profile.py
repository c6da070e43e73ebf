"""The shapes that an engine takes: a range for each dimension of a tensor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgepipe.errors import EngineError, ModelError

Shape = tuple[int, ...]
Free = int | str | None
"""A dimension in a file: its size, or its name or nothing where it is free."""


@dataclass(frozen=True, slots=True)
class ShapeProfile:
    """The least, the usual and the largest size of each dimension of one tensor.

    Raises:
        ModelError: The three do not go together, or a size is below 1.
    """

    tensor: str
    min: Shape
    opt: Shape
    """What an engine is tuned for."""
    max: Shape

    def __post_init__(self) -> None:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ModelError(f"{self}: expected as many dimensions in all three")
        triples = zip(self.min, self.opt, self.max, strict=True)
        if not all(1 <= low <= usual <= high for low, usual, high in triples):
            raise ModelError(f"{self}: expected 1 <= min <= opt <= max")

    def __str__(self) -> str:
        """As people and trtexec write it."""
        sizes = ", ".join(map(written, (self.min, self.opt, self.max)))
        return f"profile of {self.tensor!r} (min, opt, max: {sizes})"

    def require(self, shape: Sequence[int]) -> None:
        """Refuse a shape outside the profile, before the library sees it.

        Raises:
            EngineError: Names the tensor, the shape and the range.
        """
        if len(shape) == len(self.max) and all(
            low <= size <= high
            for low, size, high in zip(self.min, shape, self.max, strict=True)
        ):
            return
        raise EngineError(
            f"input {self.tensor!r}: asked for {written(shape)}, allowed is "
            f"{self.allowed()}{self._where(shape)}"
        )

    def require_one_by_one(self, shape: Sequence[int]) -> None:
        """As :meth:`require`, where more images than fit are run one by one.

        Raises:
            EngineError: Names the tensor, the shape and the range.
        """
        more = len(shape) == len(self.max) and shape[0] > self.max[0]
        self.require((self.max[0], *shape[1:]) if more else shape)

    def allowed(self) -> str:
        """The range, ``1..4x3x320..640x640``."""
        return "x".join(
            str(low) if low == high else f"{low}..{high}"
            for low, high in zip(self.min, self.max, strict=True)
        )

    def _where(self, shape: Sequence[int]) -> str:
        """Which dimensions are out of range."""
        if len(shape) != len(self.max):
            return f" ({len(self.max)} dimensions, not {len(shape)})"
        wrong = [
            f"dimension {axis} is {size} and must be {low}"
            + (f" to {high}" if high != low else "")
            for axis, (low, size, high) in enumerate(
                zip(self.min, shape, self.max, strict=True)
            )
            if not low <= size <= high
        ]
        return f" ({'; '.join(wrong)})"


def written(shape: Sequence[Free]) -> str:
    """``1x3x640x640``, with the name or ? of what is free."""
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"


def require_profiles(
    inputs: Mapping[str, Sequence[Free]], profiles: Sequence[ShapeProfile]
) -> None:
    """Check that each free dimension of a model has a range, and each fixed its size.

    Args:
        inputs: The model's inputs by name; names and None are free dimensions.
        profiles: One for each input with a free dimension; more do no harm.

    Raises:
        ModelError: Lists the free dimensions without a range, or names the profile
            that does not fit.
    """
    by_tensor = {profile.tensor: profile for profile in profiles}
    if unknown := sorted(set(by_tensor) - set(inputs)):
        raise ModelError(
            f"a profile for {', '.join(map(repr, unknown))}: the model's inputs are "
            f"{', '.join(map(repr, inputs))}"
        )
    free = [
        f"{name!r} {written(shape)}: dimension{'s' * (len(axes) > 1)} "
        f"{', '.join(map(str, axes))}"
        for name, shape in inputs.items()
        if name not in by_tensor
        and (axes := [a for a, size in enumerate(shape) if not isinstance(size, int)])
    ]
    if free:
        raise ModelError(
            f"the model has free dimensions and no profile for them: {'; '.join(free)};"
            " say the least, usual and largest size of each"
        )
    for name, profile in by_tensor.items():
        _require_fits(profile, inputs[name])


def _require_fits(profile: ShapeProfile, shape: Sequence[Free]) -> None:
    fits = len(shape) == len(profile.max) and all(
        low == size == high
        for low, size, high in zip(profile.min, shape, profile.max, strict=True)
        if isinstance(size, int)
    )
    if not fits:
        raise ModelError(f"{profile} does not fit the model's {written(shape)}")
