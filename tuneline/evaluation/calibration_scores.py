"""How true probabilities are, with intervals: with the temperature of the task and without it.

Three scores see it: the log loss and the Brier score, which a better model lowers, too, and the calibration
error, which sees nothing else (Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3). All
of them are functions of sums over rows, so that their intervals are by a jackknife of these sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.curves import CALIBRATION_BINS, calibration_bins
from tuneline.evaluation.keys import CALIBRATION_SCORES, UNCALIBRATED, change_keys
from tuneline.metrics.effective_rows import Members, RowClusters
from tuneline.metrics.scores import Floats
from tuneline.metrics.stats import LEVEL, Estimate, Interval
from tuneline.tasks import Classification, Multilabel, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.probabilities import SMALLEST, likelihoods
from tuneline.tasks.task import Labels, Logits

ROWS_AT_A_TIME = 20_000
"""Rows whose probabilities are in memory at a time."""


@dataclass(frozen=True)
class CalibrationEstimate:
    """A score with its interval, with and without the temperature, and the interval of the difference."""

    name: str
    calibrated: Estimate
    uncalibrated: Estimate
    change: Interval

    @property
    def metrics(self) -> dict[str, float]:
        """The entries of ``metrics/evaluate.json``."""
        return {
            **self.compared,
            f"{UNCALIBRATED}{self.name}_low": self.uncalibrated.low,
            f"{UNCALIBRATED}{self.name}_high": self.uncalibrated.high,
            **dict(zip(change_keys(self.name), self.change, strict=True)),
        }

    @property
    def compared(self) -> dict[str, float]:
        """The entries of a comparison of several models."""
        return {
            self.name: self.calibrated.value,
            f"{self.name}_low": self.calibrated.low,
            f"{self.name}_high": self.calibrated.high,
            f"{UNCALIBRATED}{self.name}": self.uncalibrated.value,
        }


def calibration_scores(
    task: Task, logits: Logits, labels: Labels, clusters: NDArray[Any] | None
) -> list[CalibrationEstimate]:
    """Return the scores with their intervals; none of a number, which has no probability.

    Args:
        task: The task with its temperature.
        logits: Outputs of a model, ``(rows, outputs)``.
        labels: Labels of the rows.
        clusters: Cluster of each row, ``(rows,)``; ``None``: each row is on its own.
    """
    if not isinstance(task, NamedClasses):
        return []
    rows = RowClusters.of(clusters, len(labels))
    uncalibrated = without_temperature(task)

    def block_sums(members: Members) -> Floats:
        """Return the sums of each block of rows, with the temperature and without it."""
        sums = [_block_sums(one, logits, labels, members) for one in (task, uncalibrated)]
        return np.concatenate(sums, axis=1)

    def scores_of(sums: Floats, counts: Floats) -> Floats:
        """Return the scores ``(..., 9)`` of sums over rows: after, before, and their differences."""
        of_after, of_before = np.split(sums / counts[..., np.newaxis], 2, axis=-1)
        scores = [_scores_of_means(of_after), _scores_of_means(of_before)]
        return np.concatenate([*scores, scores[0] - scores[1]], axis=-1)

    (total,) = block_sums(np.zeros(len(labels), np.int64))
    observed = scores_of(total, np.asarray(float(len(labels))))

    def leave_out(members: Members) -> Iterator[Floats]:
        counts = np.bincount(members).astype(np.float64)
        yield scores_of(total - block_sums(members), len(labels) - counts)

    right = (~task.errors(task.predictions(logits), labels)).astype(np.float64)
    errors = np.sqrt(rows.variance(leave_out, observed, right))
    half = rows.critical(LEVEL) * errors
    low, high = observed - half, observed + half

    number = len(CALIBRATION_SCORES)
    estimates = []
    for position, name in enumerate(CALIBRATION_SCORES):
        before_column = number + position
        change_column = 2 * number + position
        estimate = CalibrationEstimate(
            name,
            _positive_estimate(observed[position], half[position]),
            _positive_estimate(observed[before_column], half[before_column]),
            Interval(float(low[change_column]), float(high[change_column])),
        )
        estimates.append(estimate)
    return estimates


def _positive_estimate(value: float, half: float) -> Estimate:
    """Return a score with its interval, which does not reach below 0."""
    return Estimate(float(value), max(float(value - half), 0.0), float(value + half))


def _scores_of_means(means: Floats) -> Floats:
    """Return the scores of mean columns, ``(..., 3)``."""
    error = np.abs(means[..., 2:]).sum(axis=-1)
    return np.stack([means[..., 0], means[..., 1], error], axis=-1)


@singledispatch
def without_temperature(task: NamedClasses) -> NamedClasses:
    """Return the task with the probabilities that a model has by itself, and the same predictions."""
    raise NotImplementedError(task.kind)


@without_temperature.register(Classification)
def _(task: Classification) -> Classification:
    return replace(task, temperature=1.0)


@without_temperature.register(Multilabel)
def _(task: Multilabel) -> Multilabel:
    return task.with_temperatures(np.ones(task.outputs))


def _block_sums(task: NamedClasses, logits: Logits, labels: Labels, members: Members) -> Floats:
    """Return the sums of ``row_calibration`` over the rows of each block, ``(blocks, 2 + CALIBRATION_BINS)``.

    The probabilities of a part of the rows are in memory at a time.
    """
    blocks = int(members.max()) + 1
    sums = np.zeros((blocks, 2 + CALIBRATION_BINS))
    for start in range(0, len(labels), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        values = row_calibration(task, logits[rows], labels[rows])
        for position, column in enumerate(values.T):
            sums[:, position] += np.bincount(members[rows], column, blocks)
    return sums


@singledispatch
def row_calibration(task: NamedClasses, logits: Logits, labels: Labels) -> Floats:
    """Return what each row adds to the scores, ``(rows, 2 + CALIBRATION_BINS)``.

    The columns are the log loss, the Brier score, and for each bin of confidence by how much the confidences
    in it exceed 1 if they are right and 0 if they are wrong.
    """
    raise NotImplementedError(task.kind)


@row_calibration.register(Classification)
def _(task: Classification, logits: Logits, labels: Labels) -> Floats:
    """Return the sums of one class of several; the Brier score of two classes is half, as is usual."""
    numbers = np.arange(len(labels))
    probability = task.scores(logits)
    confidence = probability.max(axis=1)
    log_losses = -np.log(np.maximum(probability[numbers, labels], SMALLEST))

    probability[numbers, labels] -= 1.0
    brier_scores = (probability**2).sum(axis=1)
    if task.outputs == 2:
        brier_scores /= 2

    surplus = np.zeros((len(labels), CALIBRATION_BINS))
    surplus[numbers, calibration_bins(confidence)] = confidence - (task.predictions(logits) == labels)
    return np.column_stack([log_losses, brier_scores, surplus])


@row_calibration.register(Multilabel)
def _(task: Multilabel, logits: Logits, labels: Labels) -> Floats:
    """Return the means over the labels of each row: of each the probability that the row has it."""
    rows = len(labels)
    probability = task.scores(logits)
    likelihood = likelihoods(probability, labels)
    log_losses = -np.log(np.maximum(likelihood, SMALLEST)).mean(axis=1)
    brier_scores = ((1.0 - likelihood) ** 2).mean(axis=1)

    difference = (probability - labels) / task.outputs
    cells = np.arange(rows)[:, np.newaxis] * CALIBRATION_BINS + calibration_bins(probability)
    surplus = np.bincount(cells.ravel(), difference.ravel(), minlength=rows * CALIBRATION_BINS)
    return np.column_stack([log_losses, brier_scores, surplus.reshape(rows, CALIBRATION_BINS)])
