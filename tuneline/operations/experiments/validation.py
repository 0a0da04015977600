"""Scores of trainings on the validation split.

A score has an interval; two trainings on the same rows have a paired difference.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.core.params.params_file import get_value
from tuneline.core.params.section import FunctionName
from tuneline.core.paths import RAW, VALIDATION_PREDICTIONS
from tuneline.core.repository.dvc import Lock, cached_folder, cached_out
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.stage.tables import is_split_file
from tuneline.judge.metrics.functions import load_function
from tuneline.judge.metrics.predictions import read_predictions
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.operations.experiments.saved import SavedExperiment


@dataclass(frozen=True)
class ValidationScore:
    """The validation metric of the weights that a training kept.

    ``low`` and ``high`` are the ends of its 95 % interval, if it has one.
    """

    metric: str
    value: float
    greater_is_better: bool
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def validation_score(metrics: Mapping[str, float], params: Mapping[str, Any]) -> ValidationScore | None:
    """Return the score of a training; ``None`` if it has none, or is of a function that is not here.

    Args:
        metrics: The content of ``metrics/train.json``.
        params: The parameters of the training.
    """
    metric = str(get_value(params, "train.metric"))
    if FunctionName.matches(metric):
        name = FunctionName.parse("train.metric", metric)
        metric = name.function
        try:
            greater_is_better = load_function("train.metric", name).greater_is_better
        except ParamsError:
            return None
    else:
        greater_is_better = METRIC_TABLE[metric].greater_is_better

    # The metrics of the weights that the training kept: of the last epoch, or of the best.
    key = f"best_{metric}"
    if get_value(params, "train.keep") == "last":
        key = f"final_{metric}"
    if key not in metrics:
        return None
    low, high = metrics.get(f"{key}_low"), metrics.get(f"{key}_high")
    return ValidationScore(metric, metrics[key], greater_is_better, low, high)


def ranked(
    experiments: Iterable[SavedExperiment],
) -> list[tuple[SavedExperiment, ValidationScore | None]]:
    """Return experiments with their scores, the best first; those without one, or of another metric, last.

    The metric that most have decides.
    """
    scored = []
    for experiment in experiments:
        scored.append((experiment, validation_score(experiment.metrics, experiment.params)))
    names = [score.metric for _, score in scored if score]
    usual = max(names, key=names.count, default=None)

    def order(pair: tuple[SavedExperiment, ValidationScore | None]) -> float:
        _, score = pair
        if score is None or score.metric != usual:
            return math.inf
        return -score.value if score.greater_is_better else score.value

    return sorted(scored, key=order)


MARGIN = 0.01
"""Largest difference of a metric between two trainings that are called equal."""


def describe_difference(value: float, low: float, high: float, rows: int) -> str:
    """Return what rows say about two trainings, by the paired 95 % interval of their difference.

    "Equal" says more than that none is seen to be better.
    """
    if low >= -MARGIN and high <= MARGIN:
        return f"{value:+.3f}, equal within {MARGIN:g}"
    if low > 0 or high < 0:
        return f"{value:+.3f}"
    return f"{value:+.3f}, cannot be told apart on {rows:,} rows"


def compare_scores(root: Path, first: Lock, second: Lock, metric: str) -> str | None:
    """Say how much better the first of two trainings is on validation; positive is better for each metric.

    ``None`` if DVC's cache lacks the predictions of one of them, if their rows differ, or if the metric has
    no interval.
    """
    entry = METRIC_TABLE.get(metric)
    if entry is None or not entry.resampled:
        return None

    # The predictions, and the files of the rows that they are for.
    first_file = cached_out(root, first, VALIDATION_PREDICTIONS.as_posix())
    second_file = cached_out(root, second, VALIDATION_PREDICTIONS.as_posix())
    if first_file is None or second_file is None:
        return None
    rows = _validation_files(root, first)
    if not rows or rows != _validation_files(root, second):
        return None

    first_predictions = read_predictions(first_file)
    second_predictions = read_predictions(second_file)
    if first_predictions.task != second_predictions.task:
        return None
    difference = first_predictions.difference(entry, second_predictions.values)
    number = len(first_predictions)
    # As an error that is lower is better, its difference is negated, and the ends of the interval swap.
    if entry.greater_is_better:
        return describe_difference(difference.value, difference.low, difference.high, number)
    return describe_difference(-difference.value, -difference.high, -difference.low, number)


def _validation_files(root: Path, lock: Lock) -> list[Path | None]:
    """Return where DVC's cache has the files of the raw validation split."""
    folder = cached_folder(root, lock, RAW.as_posix()) or {}
    files = []
    for name, file in sorted(folder.items()):
        if is_split_file(name, "validation"):
            files.append(file)
    return files
