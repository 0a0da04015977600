"""``tuneline data``: what to do about rows that the data checks found."""

import typer

app = typer.Typer(help="Act on what the data checks found.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Act on what the data checks found."""
