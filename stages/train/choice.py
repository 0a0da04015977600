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

from stages.train.calibrated import RowLosses, calibrated_losses, uninformed_losses
from stages.train.optimization import ValidationMetric
from tuneline.metrics.judging import averaging
from tuneline.metrics.stats import Interval, paired_difference
from tuneline.metrics.table import project_metric
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.tasks.task import Labels, Logits

CLEAR = 1.0
"""Standard errors from which a difference of losses counts."""


@dataclass(frozen=True)
class Candidate:
    """A model that could be published: its metric on the validation split, calibrated losses, predictions."""

    metric: float
    losses: RowLosses
    predictions: Labels

    @classmethod
    def of(cls, logits: Logits, split: TokenizedSplit, metric: ValidationMetric) -> "Candidate":
        """Score the logits of a model for the validation split."""
        scores = metric.scores(logits, split.labels, split.task)
        decided = metric.decided(logits, split.labels, split.task)
        losses = calibrated_losses(split.task, logits, split.labels)
        return cls(scores[metric.name], losses, decided.predictions(logits))

    @property
    def loss(self) -> float:
        """Mean of the losses."""
        return float(self.losses.mean())


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


@dataclass(frozen=True)
class HeadChoice:
    """The two candidates, and which one is published.

    Attributes:
        frozen: Linear model on the frozen checkpoint.
        tuned: Fine-tuned model.
        uninformed: Losses of predictions that do not depend on the text.
        pairs: True if a row has two texts.
        metric: Name of the validation metric.
        deciding: Name of the metric that decides in the project.
        gain: The interval of that metric of the fine-tuned model less that of the linear one.
        clusters: Cluster of each row; ``None``: each row is on its own.
    """

    frozen: Candidate
    tuned: Candidate
    uninformed: RowLosses
    pairs: bool
    metric: str
    deciding: str
    gain: Interval
    clusters: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        frozen: Logits,
        tuned: Logits,
        split: TokenizedSplit,
        metric: ValidationMetric,
        pairs: bool,
        *,
        clusters: NDArray[Any] | None = None,
    ) -> "HeadChoice":
        """Compare two models by their logits for the validation split."""
        task = split.task
        linear = Candidate.of(frozen, split, metric)
        fine_tuned = Candidate.of(tuned, split, metric)
        deciding = project_metric(task.metric_kind, metric.name)
        difference = paired_difference(
            deciding,
            split.labels,
            fine_tuned.predictions,
            linear.predictions,
            average=averaging(task),
            clusters=clusters,
        )
        return cls(
            frozen=linear,
            tuned=fine_tuned,
            uninformed=uninformed_losses(task, split.labels),
            pairs=pairs,
            metric=metric.name,
            deciding=deciding.name,
            gain=Interval(difference.low, difference.high),
            clusters=clusters,
        )

    @property
    def has_learned(self) -> bool:
        """True if the fine-tuned model is clearly better than predictions without the text."""
        return advantage(self.tuned.losses, self.uninformed, self.clusters) >= CLEAR

    @property
    def is_clear(self) -> bool:
        """True if one of the models is clearly better by the metric that decides in the project."""
        return self.gain.low > 0 or self.gain.high < 0

    @property
    def is_frozen(self) -> bool:
        """True if the linear model on the frozen checkpoint is published."""
        if self.is_clear:
            return self.gain.high < 0
        if not self.has_learned:
            return True
        # of pairs, fine-tuning has to be clearly better; of single texts, it must not be clearly worse
        needed = CLEAR if self.pairs else -CLEAR
        return advantage(self.tuned.losses, self.frozen.losses, self.clusters) < needed

    @property
    def sentence(self) -> str:
        """Both candidates with their numbers, and the choice with its reason."""
        frozen = f"frozen checkpoint: loss {self.frozen.loss:.4f}, {self.metric} {self.frozen.metric:.4f}"
        tuned = f"fine-tuned: loss {self.tuned.loss:.4f}, {self.metric} {self.tuned.metric:.4f}"
        return f"on {len(self.uninformed):,} rows of validation, {frozen}; {tuned}; {self.reason}"

    @property
    def reason(self) -> str:
        """Which model is published, and why."""
        if self.is_frozen:
            choice = "the linear model on the frozen checkpoint is published"
        else:
            choice = "the fine-tuned model is published"

        # the reason only where the losses alone would not explain the choice
        if self.is_clear:
            if self.is_frozen == (self.frozen.loss < self.tuned.loss):
                return choice
            least, most = sorted(map(abs, self.gain))
            return f"{choice}: {self.deciding} is clearly better, by {least:.3f} to {most:.3f}"
        if not self.has_learned:
            return f"{choice}: fine-tuning is not clearly better than predictions without the text"
        if self.is_frozen and self.tuned.loss < self.frozen.loss:
            return f"{choice}: no clear difference, and of pairs it is usually better on other rows"
        if not self.is_frozen and self.frozen.loss < self.tuned.loss:
            return f"{choice}: no clear difference, and of single texts it is usually better on other rows"
        return choice

    @property
    def metrics(self) -> Mapping[str, float]:
        """Entries of ``metrics/train.json``."""
        return {
            "head_is_frozen": int(self.is_frozen),
            "head_by_metric": int(self.is_clear),
            "frozen_calibrated_loss": self.frozen.loss,
            "tuned_calibrated_loss": self.tuned.loss,
            f"frozen_{self.metric}": self.frozen.metric,
            f"tuned_{self.metric}": self.tuned.metric,
        }
