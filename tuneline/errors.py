"""Errors meant for the person who runs the line: what is wrong, where, and what to do. They end a stage without a traceback."""


class StageError(Exception):
    """A stage cannot go on, for a reason its user can mend.

    Args:
        problem: What is wrong, and where: file, row, column or parameter, as precisely as it is known.
        hint: What to do about it.
    """

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\n  {hint}")
        self.problem = problem
        self.hint = hint


class ParamsError(StageError):
    """``params.yaml`` (or another file of parameters) does not say what the line can do."""


class DataError(StageError):
    """Data that came in cannot be used as it is."""


class GateError(StageError):
    """A check that guards the line did not pass. Its report is written before this is raised."""
