"""Comparison of two models on the same rows: is one better?

The promotion gate and ``tuneline show --against`` ask that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.stats import LEVEL, RESAMPLES, Difference, mcnemar_p_value
from tuneline.judge.metrics.table import Metric
from tuneline.model.tasks.task import Labels


@dataclass(frozen=True)
class McNemar:
    """McNemar's test: are two classifiers right on equally many of the rows that only one predicts correctly?

    Attributes:
        p: Two-sided, exact; of rows in clusters, over the signs of the clusters.
    """

    first_only: int
    second_only: int
    p: float

    @classmethod
    def of(
        cls,
        first_right: NDArray[np.bool_],
        second_right: NDArray[np.bool_],
        clusters: NDArray[Any] | None = None,
    ) -> Self:
        """Test which predictions are right; arrays of shape ``(rows,)``."""
        # Rows that both predict correctly, or neither, say nothing about a difference.
        first_only = int((first_right & ~second_right).sum())
        second_only = int((second_right & ~first_right).sum())
        if clusters is None:
            clusters = np.arange(len(first_right))
        net = np.zeros(int(clusters.max(initial=-1)) + 1, np.int64)
        np.add.at(net, clusters, first_right.astype(np.int64) - second_right)
        return cls(first_only, second_only, mcnemar_p_value(net))


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same rows.

    Attributes:
        test: McNemar's test; ``None`` for numbers, and for sets of labels: a model with better sets often has
            fewer that are exactly right.
    """

    differences: Mapping[str, Difference]
    test: McNemar | None

    @classmethod
    def of(
        cls,
        first: Predictions,
        second: Labels,
        metrics: Iterable[Metric],
        *,
        seed: int = 0,
        resamples: int = RESAMPLES,
        level: float = LEVEL,
    ) -> Self:
        """Compare predictions.

        Args:
            first: Predictions of the first model; only one class for each row has McNemar's test.
            second: Predictions of the second model for the same rows.
            metrics: Entries of the metric table with ``resampled``.
            seed: Seed of the resampling.
            resamples: Number of resamples.
            level: Confidence level of the intervals.
        """
        differences = {}
        for metric in metrics:
            differences[metric.name] = first.difference(
                metric, second, seed=seed, resamples=resamples, level=level
            )

        test = None
        if first.task.one_class:
            errors = replace(first, values=second).errors
            test = McNemar.of(~first.errors, ~errors, first.clusters)
        return cls(differences, test)
