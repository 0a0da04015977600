"""``tuneline sweep``: train many configurations with few optimizer steps, and find the best on validation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.terminal import say, visible

if TYPE_CHECKING:
    from tuneline.operations.experiments.sweep import Trial

MAX_SHOWN = 5
"""Configurations that cannot be told from the best one, of those that are named."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="What to try: conf/sweep/NAME.yaml")]


def command(file: File) -> None:
    """Train many configurations with few optimizer steps, and find the best on validation.

    The trainings are experiments of DVC: the same command goes on with a sweep that was stopped or killed.
    """
    from tuneline.core.params.loading import read_yaml
    from tuneline.core.paths import PARAMS
    from tuneline.core.repository.git import missing
    from tuneline.core.repository.source_versions import require_present
    from tuneline.operations.experiments.sweep import run_sweep

    root = Path.cwd()
    require_present(root)
    for path in missing(root, read_yaml(root / PARAMS)):
        raise StageError(
            f"Neither git nor DVC has {path}, so no other tree has it.", f"Let DVC keep it: dvc add {path}"
        )
    trials = run_sweep(root, file, print_trial)
    for line in verdict(root, trials):
        say(line)


def print_trial(trial: "Trial", reason: str) -> None:
    """Print what came of a training."""
    result = str(trial.score)
    if reason:
        result = f"failed: {visible(reason)}"
    elif trial.steps:
        result += f" at {trial.steps} steps"
    say(f"sweep: {visible(trial.text)}: {result}")


def verdict(root: Path, trials: list["Trial"]) -> list[str]:
    """Return what came of a sweep, in sentences."""
    from tuneline.core.runtime.terminal import first_of
    from tuneline.operations.experiments.sweep import select_winner

    best = trials[0]
    if best.experiment is None or best.score is None or best.steps is not None:
        return ["No configuration is trained to the end."]
    compared, selection = select_winner(root, trials)
    lines = [f"Best of {len(trials)} on validation: {best.text}; {best.score.metric} {best.score}."]
    if selection is not None:
        expected = f"{selection.corrected:.3f} ({selection.low:.3f} to {selection.high:.3f})"
        lines.append(f"On new rows, {expected} is to be expected: corrected for the choice of the best.")
        same = [compared[index].text for index in selection.indistinguishable]
        if same:
            alike = first_of(same, MAX_SHOWN)
            lines.append(f"These rows cannot tell it apart from {alike}; the best is still the best guess.")
    lines.append(
        f"Next: write its values into params.yaml and run dvc repro, which has the training from DVC's cache;"
        f" or dvc exp apply {best.experiment.name}, which drops the comments of the file."
    )
    return lines
