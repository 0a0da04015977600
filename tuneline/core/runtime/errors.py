"""Errors for the person who runs the pipeline: what is wrong, where, and what to do.

They end a stage without a traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

PERMANENT = os.EX_CONFIG
"""Exit status of a stage that ends the same way until its user changes a parameter or the data: 78.

The flows do not repeat it.
"""


class StageError(Exception):
    """A stage cannot continue, for a reason that its user can fix.

    Args:
        problem: What is wrong and where: file, row, column or parameter, as precisely as known.
        hint: What to do about it.
    """

    status = 1
    """Exit status of a command."""
    stage_status = 1
    """Exit status of a stage: ``PERMANENT`` if parameters or data are wrong, and nothing else is at fault."""

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\n  {hint}")
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None]]:
        return type(self), (self.problem, self.hint)  # a worker process sends it by pickle


class ParamsError(StageError):
    """A parameter file is invalid, or a parameter names something that cannot be used."""

    stage_status = PERMANENT


class DataError(StageError):
    """Input data is invalid."""

    stage_status = PERMANENT


class UnreadableError(DataError):
    """The operating system does not read a file: permissions, a damaged disk, a network that is away.

    The data may be valid.
    """

    stage_status = 1


class InputError(DataError):
    """The file that a command was given is invalid: the command fails until the file or an option changes."""

    status = 65
    """``EX_DATAERR`` of sysexits.h."""


class GateError(StageError):
    """A check that guards the pipeline failed. Its report is written before this is raised."""

    stage_status = PERMANENT


class DiskError(StageError):
    """The machine's disk is full or cannot be written. Neither the data nor the parameters are at fault."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a ``DataError`` into an ``InputError``, whose exit status says that the input is invalid.

    For blocks that read nothing but the input: there the model is loaded, and the writer raises
    ``StageError``.
    """
    try:
        yield
    except UnreadableError:
        raise
    except DataError as error:
        raise InputError(error.problem, error.hint) from None
