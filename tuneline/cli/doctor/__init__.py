"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import typer

Level = Literal["ok", "warning", "error"]
COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class DoctorResult:
    """Result of one check.

    Attributes:
        level: ``error``: the pipeline cannot run. ``warning``: it runs, but slowly or with a limit.
        message: What is wrong and where, or what is in order.
        hint: How to fix it; ``None`` if nothing is wrong.
    """

    level: Level
    message: str
    hint: str | None = None


def ok(message: str) -> DoctorResult:
    """Return the result of a check that passed."""
    return DoctorResult("ok", message)


def warning(message: str, hint: str) -> DoctorResult:
    """Return the result of a check that found a problem with which the pipeline still runs."""
    return DoctorResult("warning", message, hint)


def error(message: str, hint: str) -> DoctorResult:
    """Return the result of a check that found a problem with which the pipeline cannot run."""
    return DoctorResult("error", message, hint)


def command() -> None:
    """Check this machine and this checkout, and say how to fix what is wrong. Exit code 1 if there is an error."""
    from rich.text import Text

    from tuneline.cli.console import Console
    from tuneline.cli.doctor.checkout import check_checkout, check_registry
    from tuneline.cli.doctor.machine import check_environment, check_machine

    console = Console()
    errors = 0
    for check in (check_environment, check_machine, check_checkout, check_registry):
        for result in check(Path()):
            errors += result.level == "error"
            console.print(Text(f"{result.level:>8}", COLOURS[result.level]), Text(result.message), soft_wrap=True)
            if result.hint:
                console.print(Text(f"{'':>8} -> {result.hint}", "dim"), soft_wrap=True)
    if errors:
        raise typer.Exit(1)
