"""The command ``tuneline``: one module or package per subcommand; its function ``command`` imports the slow libraries.

An error that the user can fix (``StageError``) ends a subcommand with its message and its exit status, without a traceback.
"""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tuneline.cli import doctor, explain, init, predict, report, show
from tuneline.errors import StageError
from tuneline.files.disk_errors import explain_disk_errors


class Commands(TyperGroup):
    """The subcommands, in the order in which they are added."""

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; print a ``StageError`` as a message instead of a traceback."""
        try:
            with explain_disk_errors():
                return super().invoke(ctx)
        except StageError as error:
            print(f"tuneline {ctx.invoked_subcommand}: {error}", file=sys.stderr)
            raise typer.Exit(error.status) from None
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


app.command("init")(init.command)
app.command("explain")(explain.command)
app.command("predict")(predict.command)
app.command("show")(show.command)
app.command("report")(report.command)
app.command("doctor")(doctor.command)
