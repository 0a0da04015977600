"""The command ``tuneline``: one module or package per subcommand; its function ``command`` imports the slow libraries.

An error that the user can fix (``StageError``) ends a subcommand with its message and exit code 1, without a traceback.
"""

from typing import Any

import typer
from typer.core import TyperGroup

from tuneline.cli import doctor, explain, init, predict, report, show
from tuneline.errors import StageError
from tuneline.terminal import say


class Commands(TyperGroup):
    """The subcommands, in the order in which they are added."""

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; print a ``StageError`` as a message instead of a traceback."""
        try:
            return super().invoke(ctx)
        except StageError as error:
            say(f"tuneline {ctx.invoked_subcommand}: {error}", error=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            say(f"tuneline {ctx.invoked_subcommand}: interrupted; incomplete files were discarded.", error=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="tuneline",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def tuneline() -> None:
    """A pipeline for fine-tuning transformer text classifiers."""


app.command("init")(init.command)
app.command("explain")(explain.command)
app.command("predict")(predict.command)
app.command("show")(show.command)
app.command("report")(report.command)
app.command("doctor")(doctor.command)
