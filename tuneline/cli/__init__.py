"""The command ``tuneline``: one module per subcommand, each imports slow libraries inside its function.

An error that the user can fix (``StageError``) ends a subcommand with its message and exit code 1, without a traceback.
"""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tuneline.cli import show
from tuneline.cli.doctor import command as doctor_command
from tuneline.cli.init.command import command as init_command
from tuneline.cli.predict.command import command as predict_command
from tuneline.cli.report.command import command as report_command
from tuneline.errors import StageError


class Commands(TyperGroup):
    """The subcommands, in the order in which they are added."""

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; print a ``StageError`` as a message instead of a traceback."""
        try:
            return super().invoke(ctx)
        except StageError as error:
            print(f"tuneline {ctx.invoked_subcommand}: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print(f"tuneline {ctx.invoked_subcommand}: interrupted; incomplete files were discarded.", file=sys.stderr)
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


app.command("init")(init_command)
app.command("predict")(predict_command)
app.command("show")(show.command)
app.command("report")(report_command)
app.command("doctor")(doctor_command)
