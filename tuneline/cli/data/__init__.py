"""``tuneline data``: what to do about rows that the data checks found."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.cli.data import history

app = typer.Typer(help="Act on what the data checks found.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Act on what the data checks found."""


app.command("history")(history.command)


@app.command("recode")
def recode(
    file: Annotated[Path, typer.Argument(help="CSV, TSV or JSON Lines file, plain or gzip")],
    encoding: Annotated[str | None, typer.Option("--encoding", help="Encoding of the lines that are not UTF-8; else guessed")] = None,
    mojibake: Annotated[bool, typer.Option("--mojibake", help="Convert also lines such as 'CafÃ©'")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; without it, lines are only shown")] = None,
) -> None:
    """Show the lines of a text file that are not UTF-8, and write a copy in which they are."""
    from tuneline.cli.data.recode import recode as write
    from tuneline.cli.init.encodings import known_encoding

    write(file, None if encoding is None else known_encoding(encoding), mojibake, output)
