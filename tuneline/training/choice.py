"""The choice with ``model.head: auto``: the frozen checkpoint, the fine-tuned one, or an average.

The validation split decides, by the losses of its rows, once the confidence of each model is corrected
(``calibrated_losses``): they tell more of few rows than the metric, which moves by a whole row or not at all.
Where another model is clearly better by the metric that decides in the project (the paired interval of the
difference excludes 0), that one is published: a model can have the better likelihood and never predict a rare
class.
Another model than the linear one has to be better by ``CLEAR`` standard errors: with few rows, one of four
candidates is a little better by chance, and worse on other rows (``docs/benchmarks.md``, "Which head").
After a contrastive training, a lower loss suffices for the end, and averages count only where it has none:
they predict much as the linear model does, and have the lowest loss because they are less sure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import project_metric
from tuneline.judge.metrics.temperature import best_temperature
from tuneline.model.tasks import Task
from tuneline.model.tasks.probabilities import entropies
from tuneline.model.tasks.task import Labels, Logits
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.data import Inputs
from tuneline.training.optimization import ValidationMetric

RowLosses = NDArray[np.float64]
"""Loss of each row, of shape ``(rows,)``."""
CLEAR = 1.5
"""Standard errors from which a difference of losses counts.

With 200 rows of CoLA, whose best candidate loses 2 to 9 points of accuracy or wins nothing, it was 0 to 1.1;
of 25 tags 1.7, and with 1,000 rows of MRPC 2.5, where fine-tuning wins (docs/benchmarks.md, "Which head").
"""
LEAST_EXPLAINED = 0.15
"""Fraction by which the loss of the linear model of pairs has to be below that without the texts.

It is 0.07 for 800 rows of RTE, and 0.24 for 500 rows of MRPC (docs/benchmarks.md, "Which head").
"""
MANY_PAIRS = 10_000
"""Rows of train from which the texts of a pair are always one input."""
PUBLISHED = {0.0: "the linear model on the frozen checkpoint", 1.0: "the fine-tuned model"}
AVERAGE = "the average of both, {:.0%} fine-tuned,"


@dataclass(frozen=True)
class HeadChoice:
    """Which model is published.

    Attributes:
        share: Share of fine-tuning in its weights: 0 for the linear model on the frozen checkpoint, 1 for the
            fine-tuned one, between for the average of both.
        sentence: Both models with their numbers, and the choice with its reason.
        metrics: Entries of ``metrics/train.json``.
    """

    share: float
    sentence: str
    metrics: Mapping[str, float]


def choose_head(
    candidates: Mapping[float, Logits],
    split: TokenizedSplit,
    metric: ValidationMetric,
    *,
    clusters: NDArray[Any] | None = None,
    is_contrastive: bool = False,
) -> HeadChoice:
    """Compare models by their logits for the validation split.

    Args:
        candidates: Logits by the share of fine-tuning: of 0, of 1, and of averages if the training began with
            the linear model.
        split: The validation split.
        metric: The validation metric.
        clusters: Cluster of each row; ``None``: each row is on its own.
        is_contrastive: True if the model was fine-tuned with ``train.contrastive``.
    """
    task = split.task
    losses = {}
    for share, logits in candidates.items():
        losses[share] = calibrated_losses(task, logits, split.labels)

    # by the losses
    means = {candidate: float(values.mean()) for candidate, values in losses.items()}
    share = min(means, key=lambda candidate: means[candidate])
    if is_contrastive and means[1.0] < means[0.0]:
        share = 1.0
    elif advantage(losses[share], losses[0.0], clusters) < CLEAR:
        share = 0.0
    reason = "by the losses of the rows"

    # by the metric, where it is clearly better
    deciding = project_metric(task.judged_as, metric.name)

    def predictions(candidate: float) -> Predictions:
        predicted = Predictions.of_logits(split.labels, candidates[candidate], task, clusters)
        return Predictions.of_logits(split.labels, candidates[candidate], metric.decided(predicted), clusters)

    by_losses = share
    for candidate in (0.0, 1.0):
        gain = predictions(candidate).difference(deciding, predictions(by_losses).values)
        if gain.low > 0:
            share = candidate
            reason = f"{deciding.name} is clearly better"

    scores = {}
    for candidate in (0.0, 1.0):
        predicted = Predictions.of_logits(split.labels, candidates[candidate], task)
        scores[candidate] = metric.scores(metric.measured(predicted))[metric.name]
    sentence = (
        f"on {len(split):,} rows of validation, frozen checkpoint: loss {losses[0.0].mean():.4f},"
        f" {metric.name} {scores[0.0]:.4f}; fine-tuned: loss {losses[1.0].mean():.4f}, {metric.name}"
        f" {scores[1.0]:.4f}; {PUBLISHED.get(share, AVERAGE.format(share))} is published: {reason}"
    )
    metrics = {
        "head_is_frozen": int(share == 0),
        "head_tuned_share": share,
        "head_by_metric": int(share != by_losses),
        "frozen_calibrated_loss": float(losses[0.0].mean()),
        "tuned_calibrated_loss": float(losses[1.0].mean()),
        f"frozen_{metric.name}": scores[0.0],
        f"tuned_{metric.name}": scores[1.0],
    }
    return HeadChoice(share, sentence, metrics)


def begins_with_linear_model(frozen: Logits, inputs: Inputs, pairs: bool) -> bool:
    """Return True if fine-tuning begins with the linear model on the frozen checkpoint.

    The vectors of two texts may not contain how one relates to the other. Where they do not predict the
    label, and where there are many rows, both texts are one input of the model.

    Args:
        frozen: Logits of the linear model for the validation split.
        inputs: The splits.
        pairs: True if a row has two texts.
    """
    if not pairs:
        return True
    split = inputs.validation
    loss = calibrated_losses(split.task, frozen, split.labels).mean()
    explained = 1 - loss / uninformed_losses(split.task, split.labels).mean()
    return bool(explained >= LEAST_EXPLAINED) and len(inputs.train) < MANY_PAIRS


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
    if not task.has_classes:
        return task.losses(logits, labels)
    temperature = best_temperature(lambda value: float(task.losses(logits / value, labels).mean()))
    return task.losses(logits / temperature, labels)


def uninformed_losses(task: Task, labels: Labels) -> RowLosses:
    """Return the loss of each row of the best predictions without the text: the frequencies, or the mean."""
    if not task.has_classes:
        return np.asarray(np.square(labels.astype(np.float64) - labels.mean()))
    if task.label_shape:
        return entropies(np.broadcast_to(labels.mean(axis=0), labels.shape), labels)
    frequencies = np.bincount(labels) / len(labels)
    return np.asarray(-np.log(frequencies[labels]))
