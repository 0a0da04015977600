"""Errors for the person who runs the pipeline: what is wrong, where, and what to do. They end a stage without a traceback."""

from typing import Self


class StageError(Exception):
    """A stage cannot continue, for a reason that its user can fix.

    Args:
        problem: What is wrong and where: file, row, column or parameter, as precisely as known.
        hint: What to do about it.
    """

    status = 1

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\n  {hint}")
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None]]:
        return type(self), (self.problem, self.hint)  # a worker process sends it by pickle


class ParamsError(StageError):
    """A parameter file (``params.yaml`` or another) is invalid."""


class DataError(StageError):
    """Input data is invalid."""


class UnreadableError(DataError):
    """The operating system does not read a file: permissions, a damaged disk, a network that is away. The data may be valid."""


class InputError(DataError):
    """The file that a command was given is invalid: the command ends the same way until the file or an option changes."""

    status = 65
    """``EX_DATAERR`` of sysexits.h."""


class GateError(StageError):
    """A check that guards the pipeline failed. Its report is written before this is raised."""


class DiskError(StageError):
    """The machine's disk is full or cannot be written. Neither the data nor the parameters are at fault.

    Attributes:
        device: Number of the file system that is full, if one is.
    """

    device: int | None = None
