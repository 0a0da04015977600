"""The command ``tuneline``: one module or package per subcommand.

The function ``command`` of a module imports the slow libraries.

An error that the user can fix (``StageError``) ends a subcommand with its message and its exit status,
without a traceback.
"""

# ruff: noqa: E402
from tuneline.core.runtime.terminal import discard_unread_output, explain_exceptions, say

explain_exceptions()  # first: the imports below take a second, in which a person may press Ctrl-C

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from tuneline.cli import (
    data,
    doctor,
    evaluate,
    experiments,
    init,
    labels,
    predict,
    project,
    report,
    serve,
    show,
)
from tuneline.core.runtime.errors import StageError, explain_disk_errors


class Commands(TyperGroup):
    """The subcommands, in the order in which they are added."""

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; print a ``StageError`` as a message instead of a traceback.

        If the reader of the output stops, as ``head`` does, the command ends without a word.
        """
        try:
            with interrupted_by_signals(), explain_disk_errors():
                return super().invoke(ctx)
        except BrokenPipeError:
            if discard_unread_output():
                raise typer.Exit(1) from None
            raise
        except StageError as error:
            say(f"tuneline {ctx.invoked_subcommand}: {error}", error=True)
            raise typer.Exit(error.status) from None
        except KeyboardInterrupt as interrupt:
            say(
                f"tuneline {ctx.invoked_subcommand}: interrupted; incomplete files were discarded.",
                error=True,
            )
            raise typer.Exit(128 + getattr(interrupt, "number", signal.SIGINT)) from None


class Interrupt(KeyboardInterrupt):
    """A signal that ends the command as Ctrl-C does: through every block that removes what is incomplete.

    Attributes:
        number: The number of the signal, which is in the exit status.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raise an ``Interrupt`` for SIGTERM and SIGHUP, unless they are ignored.

    A service that stops sends SIGTERM, and a terminal that is closed sends SIGHUP.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the removal
        raise Interrupt(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in former.items():
        if handler is signal.SIG_DFL:  # nohup ignores SIGHUP, and an application has handlers of its own
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


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


app.command("new")(project.new)
app.command("upgrade")(project.upgrade)
app.command("init")(init.command)
app.command("experiments")(experiments.command)
app.command("predict")(predict.command)
app.command("serve")(serve.command)
app.command("evaluate")(evaluate.command)
app.add_typer(data.app, name="data")
app.add_typer(labels.app, name="labels")
app.command("show")(show.command)
app.command("report")(report.command)
app.command("doctor")(doctor.command)
