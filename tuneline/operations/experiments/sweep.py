"""Run a sweep: a loop over rungs, each of which trains the configurations that are left for more steps.

Every training is an experiment of DVC, whose name has the hash of its parameters. So the results on disk are
the only memory: what is there is not trained again, and a training that was killed resumes from its
checkpoint.

Sources: Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
AISTATS 2016 (successive halving); Tsamardinos, Greasidou & Borboudakis, Machine Learning 107, 2018 (the
correction of the best).
"""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.core.params.loading import parse_params, read_yaml
from tuneline.core.params.params_file import get_value
from tuneline.core.paths import PARAMS, VALIDATION_PREDICTIONS
from tuneline.core.repository.dvc import cached_out
from tuneline.core.repository.git import git
from tuneline.core.repository.programs import ProgramError, Programs, dvc_error
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.judge.metrics.predictions import read_predictions
from tuneline.judge.metrics.scores import averaging
from tuneline.judge.metrics.stats import Selection, select_best
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.operations.experiments.saved import TRAIN_STAGE, SavedExperiment, saved_experiments
from tuneline.operations.experiments.sweep_space import Sweep, Values
from tuneline.operations.experiments.validation import ValidationScore, validation_score

LOGS = Path(".dvc/tmp/sweeps")


@dataclass
class Trial:
    """A configuration, and what came of its longest training.

    Attributes:
        steps: Optimizer steps of the training; ``None`` if it was trained to the end.
    """

    values: Values
    steps: int | None = None
    experiment: SavedExperiment | None = None
    score: ValidationScore | None = None

    @property
    def text(self) -> str:
        """Its parameters in one line, without their section."""
        return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in self.values.items())


Tell = Callable[[Trial, str], None]
"""Function that tells a person what came of a training: a trial, and why it failed, or an empty text."""


def run_sweep(root: Path, file: Path, tell: Tell) -> list[Trial]:
    """Run a sweep to its end, and return the trials, the best first.

    Raises:
        ParamsError: The file, or a configuration that is drawn from it, is invalid. Nothing has run.
        StageError: Tracked files have uncommitted changes.
    """
    sweep = Sweep.read(file)
    changed = git(root, "diff", "--name-only", "HEAD").splitlines()
    if changed:
        raise StageError(
            f"{changed[0]} has uncommitted changes: a sweep compares trainings of one commit.",
            "Commit them, then run the sweep.",
        )
    trials = _checked_trials(sweep, read_yaml(root / PARAMS))

    # rungs: the best of each go on
    left = trials
    if sweep.halving:
        steps = sweep.halving.first_steps
        while len(left) > 1:
            ranked = train_rung(root, file.stem, left, steps, tell)
            left = ranked[: max(1, len(left) // sweep.halving.factor)]
            steps *= sweep.halving.factor
    left = train_rung(root, file.stem, left, None, tell)
    others = [trial for trial in trials if trial not in left]
    return left + sort_trials(others)


def _checked_trials(sweep: Sweep, params: Any) -> list[Trial]:
    """Return the trials of a sweep, whose parameters are valid: nothing is trained before."""
    fixed: dict[str, Any] = {}
    if "model.head" not in sweep.parameters:
        head = get_value(params, "model.head")
        if head == "frozen":
            raise ParamsError(
                "model.head: a frozen checkpoint has no training steps that a sweep could vary."
            )
        if head == "auto":
            fixed["model.head"] = None  # fine-tuned models are compared

    trials = []
    for configuration in sweep.configurations():
        values = {**fixed, **configuration}
        changed = copy.deepcopy(params)
        for key, value in values.items():
            *sections, name = key.split(".")
            section = changed
            for inner in sections:
                section = section[inner]
            section[name] = value
        parse_params(changed)
        trials.append(Trial(values))
    return trials


def sort_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials with the best first, and those that failed or were not trained last."""

    def order(trial: Trial) -> tuple[bool, float]:
        if trial.score is None:
            return True, 0.0
        sign = -1 if trial.score.greater_is_better else 1
        return False, sign * trial.score.value

    return sorted(trials, key=order)


def train_rung(root: Path, sweep: str, trials: Sequence[Trial], steps: int | None, tell: Tell) -> list[Trial]:
    """Train the trials of a sweep as experiments of DVC, unless it has them; return them, the best first.

    Each is trained for so many optimizer steps; ``None``: as many as the parameters say.
    """
    for trial in trials:
        values = dict(trial.values)
        if steps is not None:
            values |= {"train.max_steps": steps, "train.epochs": None}
        hashed = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
        name = f"{sweep}-{hashed[:8]}"

        reason = ""
        experiment = _find(root, name)
        if experiment is None:
            reason = _train(root, name, values)
            experiment = _find(root, name)
        if experiment is not None:
            trial.steps = steps
            trial.experiment = experiment
            trial.score = validation_score(experiment.metrics, experiment.params)
        tell(trial, reason)
    return sort_trials(trials)


def _find(root: Path, name: str) -> SavedExperiment | None:
    """Return the experiment of this name on the current commit."""
    for experiment in saved_experiments(root, git(root, "rev-parse", "HEAD")):
        if experiment.name == name:
            return experiment
    return None


def _train(root: Path, name: str, values: Values) -> str:
    """Train, and return why it failed; empty if it did not."""
    arguments = ["exp", "run", "--temp", "--name", name, TRAIN_STAGE]
    for key, value in values.items():
        arguments += ["--set-param", f"{key}={json.dumps(value)}"]

    log = root / LOGS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8", buffering=1) as output:  # a person reads it meanwhile

        def log_line(line: str) -> None:
            output.write(f"{line}\n")

        try:
            Programs(root, name).dvc(*arguments, what=f"Training {name}", on_line=log_line)
        except ProgramError:
            return _reason(log.read_text(encoding="utf-8"))
    return ""


def _reason(printed: str) -> str:
    """Return the last message of the training, or else DVC's error."""
    messages = [line for line in printed.splitlines() if line.startswith("train: ")]
    if messages:
        return messages[-1].removeprefix("train: ")
    return dvc_error(printed)


def select_winner(root: Path, trials: Sequence[Trial]) -> tuple[list[Trial], Selection | None]:
    """Correct the metric of the best trial for the choice.

    Returns:
        The trials that have predictions, in the order of the selection's indexes; and the selection, ``None``
        for a metric that is not computed from predictions.
    """
    compared = []
    predictions = []
    for trial in trials:
        if trial.experiment is None or trial.score is None:
            continue
        file = cached_out(root, trial.experiment.lock, VALIDATION_PREDICTIONS.as_posix())
        if file is not None:
            compared.append(trial)
            predictions.append(read_predictions(file))
    if not compared or compared[0].score is None:
        return compared, None
    metric = METRIC_TABLE.get(compared[0].score.metric)
    if metric is None or not metric.of_predictions:
        return compared, None

    first = predictions[0]
    selection = select_best(
        metric,
        first.labels,
        [[prediction.values] for prediction in predictions],
        average=averaging(first.task),
        clusters=first.clusters,
    )
    return compared, selection
