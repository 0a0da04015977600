"""``tuneline data``: what to do about rows that the data checks found."""

import typer

from tuneline.cli.data import history

app = typer.Typer(help="Act on what the data checks found.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Act on what the data checks found."""


app.command("history")(history.command)
