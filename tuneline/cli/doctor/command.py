"""``tuneline doctor``."""

from pathlib import Path
from typing import Final

import typer

COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


def command() -> None:
    """Check this machine and this checkout, and say how to fix what is wrong. Exit code 1 if there is an error."""
    from rich.console import Console
    from rich.text import Text

    from tuneline.cli.doctor.checkout import check_checkout
    from tuneline.cli.doctor.machine import check_environment, check_machine

    console = Console()
    errors = 0
    for check in (check_environment, check_machine, check_checkout):
        for result in check(Path()):
            errors += result.level == "error"
            console.print(Text(f"{result.level:>8}", COLOURS[result.level]), Text(result.message), soft_wrap=True)
            if result.hint:
                console.print(Text(f"{'':>8} -> {result.hint}", "dim"), soft_wrap=True)
    if errors:
        raise typer.Exit(1)
