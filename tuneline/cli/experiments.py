"""``tuneline experiments``: which experiment is the best on validation, and which cannot be told from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneline.core.runtime.terminal import say

if TYPE_CHECKING:
    from rich.table import Table

    from tuneline.operations.experiments.saved import SavedExperiment

OnAnyCommit = Annotated[bool, typer.Option("--all", help="Also those on other commits than HEAD")]


def command(every: OnAnyCommit = False) -> None:
    """Show the experiments of `dvc exp run` on HEAD, the best on validation first.

    Each is compared with the best one on the same rows. `dvc exp apply NAME` takes one over, and `dvc exp
    remove NAME` removes one.
    """
    from tuneline.cli.console import Console
    from tuneline.core.repository.git import git
    from tuneline.operations.experiments.saved import committed_result, saved_experiments

    root = Path.cwd()
    experiments = saved_experiments(root, None if every else git(root, "rev-parse", "HEAD"))
    for base in dict.fromkeys(experiment.base for experiment in experiments):
        result = committed_result(root, base)
        if result is not None:
            experiments.append(result)
    if not experiments:
        say(
            "There is no experiment on this commit. `dvc exp run --temp train -S KEY=VALUE` makes one; --all"
            " shows those on other commits."
        )
        return
    Console().print(experiments_table(root, experiments))


def experiments_table(root: Path, experiments: list["SavedExperiment"]) -> "Table":
    """Return the table, the best first; those without a score, or with one of another metric, are last."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from tuneline.core.runtime.terminal import visible
    from tuneline.operations.experiments.validation import compare_scores, ranked

    rows = ranked(experiments)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("experiment", overflow="fold")
    table.add_column("differs from its commit", overflow="fold")
    table.add_column("validation", justify="right")
    table.add_column("against the best", justify="right", min_width=len("be told apart"))
    table.add_column("commit", justify="right", no_wrap=True)

    best, best_score = rows[0]
    for experiment, score in rows:
        against = ""
        if experiment is best and score is not None:
            against = "best"
        elif score is not None and best_score is not None and score.metric == best_score.metric:
            against = compare_scores(root, experiment.lock, best.lock, score.metric) or ""
        changes = []
        for key, value in experiment.differs.items():
            changes.append(f"{key.removeprefix('train.')}={_shown(value)}")
        differs = ", ".join(changes)
        table.add_row(
            # Cells of data are made visible here: rich cuts cells by the width of what they show
            visible(experiment.name),
            visible(differs) or "nothing",
            f"{score.metric} {score}" if score else "",
            against,
            experiment.commit[:7],
        )
    return table


def _shown(value: Any) -> str:
    """Return a value of a parameter as YAML has it, and numbers in few digits."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
