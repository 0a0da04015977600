"""Which model is published with ``model.head: auto``: the fine-tuned one, or the linear model on the frozen checkpoint.

The validation split decides, by the mean loss of its rows once the confidence of both models is corrected (``calibrated_losses``): it tells
more of few rows than the metric, which moves by a whole row or not at all. In ``docs/benchmarks.md``, "Which head", the rules are compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stages.train.optimization import Logits, ValidationMetric
from tuneline.metrics.calibrated import calibrated_losses
from tuneline.model.batches import TokenizedSplit


@dataclass(frozen=True)
class Candidate:
    """A model that could be published: its metric on the validation split, and its mean calibrated loss there."""

    metric: float
    loss: float

    @classmethod
    def of(cls, logits: Logits, split: TokenizedSplit, metric: ValidationMetric) -> "Candidate":
        """Score the logits of a model for the validation split."""
        scores = metric.scores(logits, split.labels, split.label_schema)
        losses = calibrated_losses(logits, split.labels, split.label_schema.is_regression)
        return cls(scores[metric.name], float(losses.mean()))


@dataclass(frozen=True)
class HeadChoice:
    """The two candidates, and which one is better."""

    frozen: Candidate
    tuned: Candidate
    rows: int
    metric: str

    @property
    def is_frozen(self) -> bool:
        """True if the linear model on the frozen checkpoint is published; of equal ones it is the simpler one."""
        return self.frozen.loss <= self.tuned.loss

    @property
    def sentence(self) -> str:
        """Both candidates with their numbers, and the choice."""
        described = " and ".join(
            f"{name} loss {one.loss:.4f}, {self.metric} {one.metric:.4f}"
            for name, one in {"the frozen checkpoint": self.frozen, "fine-tuned": self.tuned}.items()
        )
        chosen = "the linear model on the frozen checkpoint" if self.is_frozen else "the fine-tuned model"
        return f"on {self.rows:,} rows of validation, {described}: {chosen} is published"

    @property
    def metrics(self) -> Mapping[str, float]:
        """Entries of ``metrics/train.json``."""
        return {
            "head_is_frozen": int(self.is_frozen),
            "frozen_calibrated_loss": self.frozen.loss,
            "tuned_calibrated_loss": self.tuned.loss,
            f"frozen_{self.metric}": self.frozen.metric,
            f"tuned_{self.metric}": self.tuned.metric,
        }
