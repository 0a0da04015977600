"""``tuneline sweep``: train many configurations with few optimizer steps, and find the best on validation."""

import contextlib
import signal
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say, visible

if TYPE_CHECKING:
    from rich.table import Table

    from tuneline.sweeps.record import SweepRecord, Trial
    from tuneline.sweeps.running import Show

SHOWN = 30
"""Configurations in the table; the rest is in the record."""


class FileOrCommand(TyperGroup):
    """A group whose command ``run`` may be left out: ``tuneline sweep FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before arguments that name no command."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(cls=FileOrCommand, invoke_without_command=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="What to try: conf/sweep/NAME.yaml")]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Trainings at the same time, each with its part of the cores, or a GPU",
    ),
]
Restart = Annotated[bool, typer.Option("--restart", help="Forget what an earlier start has trained")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a sweep that has run: the name of its file")
]


@app.callback()
def sweep(ctx: typer.Context) -> None:
    """Train many configurations with few optimizer steps, and find the best on validation."""
    if ctx.invoked_subcommand is None:
        from tuneline.sweeps.space import known_sweeps

        raise StageError(f"There {known_sweeps()}.", "tuneline sweep FILE")


@app.command("run")
def run(file: File, workers: Workers = 1, restart: Restart = False) -> None:
    """Run a sweep, or go on with one that was stopped or killed; ``run`` may be left out."""
    from tuneline.cli.console import Console
    from tuneline.core.yaml_files import read_yaml
    from tuneline.experiments.in_progress import require_versioned
    from tuneline.paths import PARAMS
    from tuneline.repository.source_versions import require_present
    from tuneline.sweeps.ranking import verdict, winner
    from tuneline.sweeps.running import run_sweep

    root = Path.cwd()
    name = file.stem
    require_present(root)
    require_versioned(root, read_yaml(root / PARAMS))
    try:
        with sweep_shown(name) as show:
            record = run_sweep(root, file, workers, show, restart=restart)
    except KeyboardInterrupt as interrupt:
        options = f" --workers {workers}" if workers > 1 else ""
        say(
            "\nsweep: interrupted; the trainings saved their checkpoints. Go on: tuneline sweep"
            f" {file}{options}",
            error=True,
        )
        raise typer.Exit(128 + getattr(interrupt, "number", signal.SIGINT)) from None

    if not sys.stdout.isatty():  # on a terminal, the table is on the screen already
        Console(width=160).print(sweep_table(name, record))
    best = winner(root, name, record)
    say(verdict(best, record, name))
    if best is not None:
        say(
            f"Next: tuneline sweep apply {name}, and dvc repro computes test, once. All: tuneline experiments"
        )


@app.command("apply")
def apply(name: Name) -> None:
    """Write the parameters of a sweep's best configuration into params.yaml.

    `dvc repro` then has its training from the cache.
    """
    from tuneline.cli.experiments import apply as apply_experiment
    from tuneline.sweeps.ranking import find_winner

    winner = find_winner(Path.cwd(), name)
    apply_experiment(f"{name}-{winner.best.number}")


@contextlib.contextmanager
def sweep_shown(name: str) -> Iterator["Show"]:
    """Yield what shows the sweep: a table that changes on a terminal, else a line for every event."""
    if not sys.stdout.isatty():
        yield lines()
        return
    from rich.live import Live

    from tuneline.cli.console import Console

    with Live(console=Console(), refresh_per_second=2) as live:
        yield lambda record, training: live.update(sweep_table(name, record, training))


def lines() -> "Show":
    """Return a function that prints what is new of each trial."""
    from tuneline.sweeps.record import Configuration

    before: dict[int, Trial] = {}

    def show(record: "SweepRecord", training: Collection[int]) -> None:  # noqa: ARG001 - as the table
        for trial in record.trials:
            if before.get(trial.number, trial) != trial:
                score = trial.score()
                message = f"sweep: trial {trial.number}: {Configuration([trial]).state}"
                if score is not None:
                    message += f", {record.metric} {score:.4f}"
                say(message)
            before[trial.number] = trial

    return show


def sweep_table(name: str, record: "SweepRecord", training: Collection[int] = ()) -> "Table":
    """Return the table of the configurations for a terminal."""
    from rich import box
    from rich.table import Table

    from tuneline.sweeps.ranking import LATENCY_COLUMN, configuration_rows

    rows = configuration_rows(record, name, training)
    steps = sum(trial.steps for trial in record.trials)
    table = Table(
        box=box.SIMPLE,
        title=f"sweep {name}: {len(rows)} configurations, {steps:,} steps",
        title_justify="left",
    )
    titles = list(rows[0]) if rows else []
    for title in titles:
        table.add_column(title, justify="right" if title in {record.metric, LATENCY_COLUMN} else "left")
    for row in rows[:SHOWN]:
        table.add_row(*map(visible, row.values()))

    notes = []
    if LATENCY_COLUMN in titles:
        notes.append("* no other configuration is as good in both (Pareto front)")
    if len(rows) > SHOWN:
        notes.append(f"and {len(rows) - SHOWN} more")
    table.caption = "; ".join(notes) or None
    return table
