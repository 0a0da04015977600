"""``tuneline doctor``."""

from pathlib import Path
from typing import Final

import typer

COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


def command() -> None:
    """Say what is wrong with this machine or this checkout, and what to do about it."""
    from rich.console import Console
    from rich.text import Text

    from tuneline.cli.doctor import checkout, environment, machine

    console = Console()
    errors = 0
    for look in (environment.look, machine.look, checkout.look):
        for finding in look(Path()):
            errors += finding.level == "error"
            console.print(Text(f"{finding.level:>8}", COLOURS[finding.level]), Text(finding.what), soft_wrap=True)
            if finding.hint:
                console.print(Text(f"{'':>8} -> {finding.hint}", "dim"), soft_wrap=True)
    if errors:
        raise typer.Exit(1)
