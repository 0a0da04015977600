"""How much the reported metric says: the effect of leaked rows on it, and the comparison with the TF-IDF baseline, in words.

Leaked rows repeat or resemble a row of an earlier split, as the data checks found them. The stage ``evaluate`` computes both into
``metrics/evaluate.json``; the report, the model card and ``tuneline show`` read them from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tuneline.metrics.table import LEAKED_ROWS, Metric, primary_metric


@dataclass(frozen=True)
class LeakEffect:
    """The primary metric with (``every``) and without the leaked rows.

    ``low`` and ``high`` are the ends of the 95 % interval of ``without``, ``gain_low`` and ``gain_high`` those of ``every - without``.
    """

    metric: Metric
    every: float
    without: float
    low: float
    high: float
    gain_low: float
    gain_high: float
    leaked: int
    rows: int

    @classmethod
    def read(cls, evaluated: Mapping[str, float]) -> Self | None:
        """Read it from ``metrics/evaluate.json``; ``None`` if there is no leaked row, or no other row."""
        for metric in (primary_metric("classification"), primary_metric("regression")):
            keys = (metric.name, *metric.without_leaks, *metric.from_leaks)
            if all(key in evaluated for key in keys):
                every, without, low, high, gain_low, gain_high = (evaluated[key] for key in keys)
                counts = int(evaluated[LEAKED_ROWS]), int(evaluated["rows"])
                return cls(metric, every, without, low, high, gain_low, gain_high, *counts)
        return None

    @property
    def misleads(self) -> bool:
        """True if the leaked rows raise the metric, and the difference is not chance."""
        return self.gain_low > 0

    @property
    def sentence(self) -> str:
        """The effect in words."""
        effect = "raise it" if self.misleads else "lower it" if self.gain_high < 0 else "do not clearly change it"
        return (
            f"{self.leaked:,} of {self.rows:,} rows ({self.leaked / self.rows:.1%}) repeat or resemble a row of an earlier split. "
            f"{self.metric.title} without them: {self.without:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}). "
            f"They {effect}: {self.every - self.without:+.3f} (95 % interval {self.gain_low:+.3f} to {self.gain_high:+.3f})."
        )


@dataclass(frozen=True)
class BaselineComparison:
    """The primary metric of the model and of the TF-IDF baseline.

    ``low`` and ``high`` are the ends of the 95 % interval of ``model - baseline``, by a paired bootstrap of the rows.
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
