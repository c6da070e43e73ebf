"""Every exception edgepipe raises on purpose.

* EdgepipeError       the command line prints it as one line
  * ConfigError       the configuration cannot be used
    * ConfigErrors    several of them, found in one run
  * InputError        a file, folder or device cannot be read
    * InUseError      a camera that another edgepipe has; exits with 1
  * ModelError        a model cannot be loaded or used as described
  * EngineError       an engine could not be built or failed to run
  * StageError        a stage failed on a frame; the cause is chained
  * StoppedError      work was asked of something that has been stopped
"""

from collections.abc import Sequence


class EdgepipeError(Exception):
    """Base of every deliberate edgepipe error; a user's mistake exits with 2."""


class ConfigError(EdgepipeError):
    """One configuration value is missing, unknown or out of range.

    Attributes:
        where: ``file:line:column`` or the origin of the value (``--set``).
        path: Dotted path of the value, ``streams[0].deadline``; may be empty.
        problem: The rule that was broken and the value that broke it.
    """

    def __init__(self, where: str, path: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (where, path, problem) if part))
        self.where = where
        self.path = path
        self.problem = problem


class ConfigErrors(ConfigError):  # noqa: N818 - the plural says it
    """All the problems of one configuration, in the order of the text."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        if not errors:
            raise ValueError("ConfigErrors needs at least one error")
        first = errors[0]
        super().__init__(first.where, first.path, first.problem)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """One line for each problem."""
        return "\n".join(str(error) for error in self.errors)


class InputError(EdgepipeError):
    """A source cannot be opened or read; the message names it."""


class InUseError(InputError):
    """Another edgepipe has what this one is told to open: nothing is wrong with it."""


class ModelError(EdgepipeError):
    """A model file, its card or its class names do not fit together."""


class EngineError(EdgepipeError):
    """An inference engine could not be loaded or run."""


class StageError(EdgepipeError):
    """A stage raised while processing a frame; the cause is chained."""

    def __init__(self, stage: str, stream: str, sequence: int) -> None:
        super().__init__(f"stage {stage!r} failed on frame {sequence} of {stream!r}")
        self.stage = stage
        self.stream = stream
        self.sequence = sequence


class StoppedError(EdgepipeError):
    """The pipeline has been stopped; nothing more can be asked of it."""
