"""The baseline that a model must beat: TF-IDF with a linear model, scored on the same rows by the stage ``evaluate``.

``metrics/evaluate.json`` has its metrics, and the interval of the difference between the model and the baseline. The report, the model
card and ``tuneline show`` read them from there, so all three say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tuneline.metrics import Metric, primary_metric


@dataclass(frozen=True)
class BaselineComparison:
    """The primary metric of the model and of the TF-IDF baseline.

    Attributes:
        metric: Accuracy, or Pearson's r of a regression.
        model: Its value for the model.
        baseline: Its value for the baseline.
        low: Lower end of the 95 % interval of ``model - baseline``, by a paired bootstrap of the rows.
        high: Upper end.
    """

    metric: Metric
    model: float
    baseline: float
    low: float
    high: float

    @classmethod
    def read(cls, evaluated: Mapping[str, float]) -> Self | None:
        """Read the comparison from ``metrics/evaluate.json``; ``None`` if a version without this baseline wrote it."""
        for metric in (primary_metric("classification"), primary_metric("regression")):
            keys = (metric.name, metric.tfidf, *metric.over_tfidf)
            if all(key in evaluated for key in keys):
                return cls(metric, *(evaluated[key] for key in keys))
        return None

    @property
    def beaten(self) -> bool:
        """True if the model is better, and the difference is not chance."""
        return self.low > 0

    @property
    def sentence(self) -> str:
        """The comparison in words, with what to do if the model is not better."""
        linear = "logistic" if "classification" in self.metric.tasks else "ridge"
        verb = "beats" if self.beaten else "does not clearly beat" if self.model > self.baseline else "does not beat"
        text = (
            f"The model {verb} TF-IDF with {linear} regression: {self.metric.title} {self.model:.3f} against {self.baseline:.3f} "
            f"(95 % interval of the difference: {self.low:+.3f} to {self.high:+.3f})."
        )
        return text if self.beaten else f"{text} Fine-tune a pretrained checkpoint, get more data, or use the simpler model."
