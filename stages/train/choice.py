"""The choice with ``model.head: auto``: publish the fine-tuned model, or the linear one on the checkpoint.

The validation split decides. Where it shows one model clearly better by the metric that decides in the
project (the paired interval of the difference excludes 0), that model is published: a model can have the
better likelihood and never predict a rare class. Elsewhere the losses of its rows decide, once the
confidence of both models is corrected (``calibrated_losses``): they tell more of few rows than the metric,
which moves by a whole row or not at all.
What experience expects, the rows have to refute by a standard error: of single texts, 300 rows sufficed for a
better fine-tuned model, of pairs not even 1,000 (``docs/benchmarks.md``, "Which head").
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.train.optimization import ValidationMetric
from tuneline.calibration.temperature import best_temperature
from tuneline.metrics.judging import averaging
from tuneline.metrics.stats import paired_difference
from tuneline.metrics.table import project_metric
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.tasks import Multilabel, Regression, Task
from tuneline.tasks.probabilities import SMALLEST, entropies, probabilities, sigmoid
from tuneline.tasks.task import Labels, Logits

RowLosses = NDArray[np.float64]
"""Loss of each row, of shape ``(rows,)``."""
CLEAR = 1.0
"""Standard errors from which a difference of losses counts."""


@dataclass(frozen=True)
class HeadChoice:
    """Which model is published.

    Attributes:
        is_frozen: True for the linear model on the frozen checkpoint.
        sentence: Both models with their numbers, and the choice with its reason.
        metrics: Entries of ``metrics/train.json``.
    """

    is_frozen: bool
    sentence: str
    metrics: Mapping[str, float]


def choose_head(
    frozen: Logits,
    tuned: Logits,
    split: TokenizedSplit,
    metric: ValidationMetric,
    pairs: bool,
    *,
    clusters: NDArray[Any] | None = None,
) -> HeadChoice:
    """Compare two models by their logits for the validation split.

    Args:
        frozen: Logits of the linear model on the frozen checkpoint.
        tuned: Logits of the fine-tuned model.
        split: The validation split.
        metric: The validation metric.
        pairs: True if a row has two texts.
        clusters: Cluster of each row; ``None``: each row is on its own.
    """
    task = split.task
    frozen_losses = calibrated_losses(task, frozen, split.labels)
    tuned_losses = calibrated_losses(task, tuned, split.labels)
    frozen_metric = metric.scores(frozen, split.labels, task)[metric.name]
    tuned_metric = metric.scores(tuned, split.labels, task)[metric.name]

    # by the metric, else by the losses: of pairs, fine-tuning has to be clearly better; of single texts, it
    # must not be clearly worse
    deciding = project_metric(task.kind, metric.name)
    gain = paired_difference(
        deciding,
        split.labels,
        metric.decided(tuned, split.labels, task).predictions(tuned),
        metric.decided(frozen, split.labels, task).predictions(frozen),
        average=averaging(task),
        clusters=clusters,
    )
    is_clear = gain.low > 0 or gain.high < 0
    uninformed = uninformed_losses(task, split.labels)
    needed = CLEAR if pairs else -CLEAR
    if is_clear:
        is_frozen = gain.high < 0
        reason = f"{deciding.name} is clearly better"
    elif advantage(tuned_losses, uninformed, clusters) < CLEAR:
        is_frozen = True
        reason = "fine-tuning is not clearly better than predictions without the text"
    else:
        is_frozen = advantage(tuned_losses, frozen_losses, clusters) < needed
        reason = "their losses decide, and of pairs the linear model is usually better on other rows"
        if not pairs:
            reason = "their losses decide, and of single texts fine-tuning is usually better on other rows"

    choice = "the linear model on the frozen checkpoint" if is_frozen else "the fine-tuned model"
    sentence = (
        f"on {len(split):,} rows of validation, frozen checkpoint: loss {frozen_losses.mean():.4f},"
        f" {metric.name} {frozen_metric:.4f}; fine-tuned: loss {tuned_losses.mean():.4f},"
        f" {metric.name} {tuned_metric:.4f}; {choice} is published: {reason}"
    )
    metrics = {
        "head_is_frozen": int(is_frozen),
        "head_by_metric": int(is_clear),
        "frozen_calibrated_loss": float(frozen_losses.mean()),
        "tuned_calibrated_loss": float(tuned_losses.mean()),
        f"frozen_{metric.name}": frozen_metric,
        f"tuned_{metric.name}": tuned_metric,
    }
    return HeadChoice(is_frozen, sentence, metrics)


def advantage(losses: RowLosses, reference: RowLosses, clusters: NDArray[Any] | None = None) -> float:
    """Return by how many standard errors the mean of ``losses`` is below the mean of ``reference``.

    Both have a value for each of the same rows. Rows of the same number in ``clusters`` are not independent
    of each other. The result is 0 if all differences are equal.
    """
    gains = reference - losses
    # a sum for each cluster, of deviations from the mean of all rows (Cochran 1977, section 6.4)
    deviations = gains - gains.mean()
    if clusters is not None:
        deviations = np.bincount(clusters, deviations)
    number = len(deviations)
    if number < 2 or not np.ptp(gains):
        return 0.0
    variance = float(np.sum(deviations**2)) * number / (number - 1)
    if not variance:
        return 0.0
    return float(gains.sum()) / math.sqrt(variance)


def calibrated_losses(task: Task, logits: Logits, labels: Labels) -> RowLosses:
    """Return the loss of each row once the confidence of the model is corrected.

    The logits are divided by the temperature that suits these rows best (Guo et al. 2017, "On Calibration of
    Modern Neural Networks"): a fine-tuned model is too sure of itself, which costs it a loss that says
    nothing about its predictions. A number has no confidence: its loss is the squared error.
    """
    if isinstance(task, Regression):
        errors: RowLosses = logits[:, 0].astype(np.float64) - labels
        return np.asarray(np.square(errors))
    temperature = best_temperature(lambda value: float(_losses(task, logits / value, labels).mean()))
    return _losses(task, logits / temperature, labels)


def _losses(task: Task, logits: NDArray[Any], labels: Labels) -> RowLosses:
    """Return the log loss of each row, or the mean of the log losses of its labels."""
    if isinstance(task, Multilabel):
        return entropies(sigmoid(logits), labels)
    likelihood = probabilities(logits)[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)))


def uninformed_losses(task: Task, labels: Labels) -> RowLosses:
    """Return the loss of each row of the best predictions without the text: the frequencies, or the mean."""
    if isinstance(task, Regression):
        return np.asarray(np.square(labels.astype(np.float64) - labels.mean()))
    if isinstance(task, Multilabel):
        return entropies(np.broadcast_to(labels.mean(axis=0), labels.shape), labels)
    frequencies = np.bincount(labels) / len(labels)
    return np.asarray(-np.log(frequencies[labels]))
