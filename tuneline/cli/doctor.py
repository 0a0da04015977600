"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem."""

from pathlib import Path

import typer
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.operations.checkup import all_results

COLOURS = {"ok": "green", "warning": "yellow", "error": "bold red"}


def command() -> None:
    """Check this machine and this checkout, and say how to fix what is wrong.

    Exit code 1 if there is an error.
    """
    console = Console()
    has_error = False
    for result in all_results(Path()):
        has_error = has_error or result.level == "error"
        level = Text(f"{result.level:>8}", COLOURS[result.level])
        console.print(level, Text(result.message), soft_wrap=True)
        if result.hint:
            console.print(Text(f"{'':>8} -> {result.hint}", "dim"), soft_wrap=True)
    if has_error:
        raise typer.Exit(1)
