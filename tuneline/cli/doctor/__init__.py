"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Attributes:
        level: ``error``: the pipeline cannot run. ``warning``: it runs, but slowly or with a limit.
        message: What is wrong and where, or what is in order.
        hint: How to fix it; ``None`` if nothing is wrong.
    """

    level: Level
    message: str
    hint: str | None = None


def ok(message: str) -> CheckResult:
    """Return the result of a check that passed."""
    return CheckResult("ok", message)


def warning(message: str, hint: str) -> CheckResult:
    """Return the result of a check that found a problem with which the pipeline still runs."""
    return CheckResult("warning", message, hint)


def error(message: str, hint: str) -> CheckResult:
    """Return the result of a check that found a problem with which the pipeline cannot run."""
    return CheckResult("error", message, hint)
