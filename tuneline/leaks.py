"""What leaked rows do to the reported metric: rows that repeat or resemble a row of an earlier split, as the data checks found them.

The stage ``evaluate`` computes it into ``metrics/evaluate.json``; the report, the model card and ``tuneline show`` read it from there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tuneline.metrics import LEAKED_ROWS, Averaging, Metric, primary_metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tuneline.metrics import CountScore, RowScore
    from tuneline.stats import Difference, Floats


@dataclass(frozen=True)
class LeakEffect:
    """The primary metric with and without the leaked rows.

    Attributes:
        metric: Accuracy, or Pearson's r of a regression.
        every: Its value on all rows.
        without: Its value without the leaked rows.
        low: Lower end of the 95 % interval of ``without``.
        high: Upper end.
        gain_low: Lower end of the 95 % interval of ``every - without``.
        gain_high: Upper end.
        leaked: Number of leaked rows.
        rows: Number of all rows.
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


def leak_difference(
    metric: Metric,
    labels: "NDArray[Any]",
    predictions: "NDArray[Any]",
    leaked: "NDArray[np.bool_]",
    *,
    average: Averaging = "macro",
    seed: int = 0,
) -> "Difference":
    """Return a metric on all rows and on those that are not leaked, with the stratified bootstrap interval of the difference.

    Leaked and other rows are drawn separately, so that each draw has as many of both as the split (Efron & Tibshirani, "An Introduction
    to the Bootstrap", 1993, section 8.3), and both metrics are computed on the same draw.

    Args:
        metric: Entry of the metric table, of predictions.
        labels: Shape ``(rows,)``: class ids, or numbers.
        predictions: Shape ``(rows,)``.
        leaked: Shape ``(rows,)``; true for at least one row, and not for all.
        average: How F1 is averaged.
        seed: Seed of the draws.
    """
    import numpy as np

    from tuneline.scores import numeric_columns
    from tuneline.stats import Difference, percentile_interval

    generator = np.random.default_rng(seed)
    if metric.count_score is not None:
        scores = _class_scores(metric.count_score, (labels, predictions, leaked), average, generator)
    elif metric.row_score is not None:
        scores = _number_scores(metric.row_score, numeric_columns((labels, predictions), metric.on_ranks), leaked, generator)
    else:
        raise ValueError(f"{metric.name} cannot be computed from predictions")
    (every, without), drawn = next(scores)[0], np.concatenate(list(scores))
    return Difference(float(every), float(without), *percentile_interval(drawn[:, 0] - drawn[:, 1]))


def _class_scores(
    score: "CountScore", columns: "tuple[NDArray[Any], ...]", average: Averaging, generator: "np.random.Generator"
) -> "Iterator[Floats]":
    """Yield both scores of all rows, then of blocks of draws, each of shape ``(draws, 2)``.

    Rows with the same label, prediction and stratum are alike: drawing how many of each there are is drawing rows, and fast.
    """
    import numpy as np

    from tuneline.scores import distinct_rows
    from tuneline.stats import RESAMPLES, chunks

    (labels, predictions, leaked), counts = distinct_rows(columns)

    def both(drawn: "NDArray[np.int64]") -> "Floats":
        return np.stack([score(drawn * (leaked <= most).astype(np.float64), labels, predictions, average) for most in (1, 0)], axis=-1)

    yield both(counts[None])
    for size in chunks(RESAMPLES, len(counts)):
        drawn = np.zeros((size, len(counts)), np.int64)
        for stratum in (leaked == 0, leaked == 1):
            total = counts[stratum].sum()
            drawn[:, stratum] = generator.multinomial(total, counts[stratum] / total, size=size)
        yield both(drawn)


def _number_scores(
    score: "RowScore", values: "Floats", leaked: "NDArray[np.bool_]", generator: "np.random.Generator"
) -> "Iterator[Floats]":
    """Yield the scores of numbers, as ``_class_scores`` does."""
    import numpy as np

    from tuneline.stats import RESAMPLES, chunks

    strata = np.flatnonzero(~leaked), np.flatnonzero(leaked)

    def both(drawn: "list[NDArray[np.int64]]") -> "Floats":
        return np.stack([score(*values[:, rows]) for rows in (np.concatenate(drawn, axis=1), drawn[0])], axis=-1)

    yield both([rows[None] for rows in strata])
    for size in chunks(RESAMPLES, len(leaked)):
        yield both([generator.choice(rows, (size, len(rows))) for rows in strata])
