"""Scores of trainings on the validation split: value, interval, and the paired difference of two trainings on the same rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.core.paths import RAW, VALIDATION_PREDICTIONS
from tuneline.core.tables import is_split_file, read_table
from tuneline.metrics.table import METRIC_TABLE
from tuneline.params.section import FunctionName
from tuneline.project.dvc import Lock, cached_folder, cached_out
from tuneline.project.params_file import get_value
from tuneline.tasks import read_task


@dataclass(frozen=True)
class ValidationScore:
    """The validation metric of the weights that a training kept; ``low`` and ``high`` end its 95 % interval, if it has one."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{interval}"

    @property
    def greater_is_better(self) -> bool:
        """True unless the metric is an error or a loss; that of a function of the user is taken for a score."""
        return self.metric not in METRIC_TABLE or METRIC_TABLE[self.metric].greater_is_better


def validation_score(metrics: Mapping[str, float], params: Mapping[str, Any]) -> ValidationScore | None:
    """Return the score in ``metrics/train.json``, given the parameters of the training; ``None`` without one."""
    name = str(get_value(params, "train.metric"))
    metric = FunctionName.parse("train.metric", name).function if FunctionName.matches(name) else name
    kept = f"{'final' if get_value(params, 'train.keep') == 'last' else 'best'}_{metric}"
    if kept not in metrics:
        return None
    return ValidationScore(metric, metrics[kept], metrics.get(f"{kept}_low"), metrics.get(f"{kept}_high"))


@dataclass(frozen=True)
class ScoreDifference:
    """How much better the first of two trainings is, with the ends of the paired 95 % interval; an error that is lower is better.

    ``rows`` are those of the validation split.
    """

    value: float
    low: float
    high: float
    rows: int

    @property
    def distinguishable(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def equal(self) -> bool:
        """True if the interval lies within ``MARGIN``: the two are as good as each other.

        That none is seen to be better is less.
        """
        return self.low >= -MARGIN and self.high <= MARGIN

    @property
    def verdict(self) -> str:
        """What the rows say, in words."""
        if self.equal:
            return f"equal within {MARGIN:g}"
        return "clearly different" if self.distinguishable else f"cannot be told apart on {self.rows:,} rows"

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


MARGIN = 0.01
"""Largest difference of a metric between two trainings that are called equal."""


def compare_scores(
    root: Path, first: Lock, second: Lock, metric: str, seed: int = 0
) -> ScoreDifference | None:
    """Compare two trainings on validation.

    ``None`` if DVC's cache lacks the predictions of one of them, if their rows differ, or if the metric has
    no interval.
    """
    files = [cached_out(root, lock, VALIDATION_PREDICTIONS.as_posix()) for lock in (first, second)]
    rows, others = (_validation_files(root, lock) for lock in (first, second))
    if (
        None in files
        or not rows
        or rows != others
        or not (entry := METRIC_TABLE.get(metric))
        or not entry.resampled
    ):
        return None
    from tuneline.metrics.stats import paired_difference

    ours, theirs = (read_table(file, ["label", "prediction"]) for file in files if file)
    schema = read_task(ours.schema, "label")
    if schema != read_task(theirs.schema, "label"):
        return None
    labels, predictions, others = (
        column.to_numpy() for column in (ours["label"], ours["prediction"], theirs["prediction"])
    )
    difference = paired_difference(
        entry, labels, predictions, others, average=schema.averaging(None), seed=seed
    )
    if entry.greater_is_better:
        return ScoreDifference(difference.value, difference.low, difference.high, len(labels))
    return ScoreDifference(-difference.value, -difference.high, -difference.low, len(labels))


def _validation_files(root: Path, lock: Lock) -> list[Path | None]:
    """Return where DVC's cache has the files of the raw validation split."""
    folder = cached_folder(root, lock, RAW.as_posix()) or {}
    return [file for name, file in sorted(folder.items()) if is_split_file(name, "validation")]
