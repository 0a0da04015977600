"""Comparison of two models on the same rows: is one better?

The promotion gate and ``tuneline show --against`` ask that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.stats import (
    LEVEL,
    RESAMPLES,
    Difference,
    mcnemar_p_value,
    paired_difference,
)
from tuneline.judge.metrics.table import Averaging, Metric
from tuneline.model.tasks import Task


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
        task: Task,
        metrics: Iterable[Metric],
        labels: NDArray[Any],
        first: NDArray[Any],
        second: NDArray[Any],
        *,
        average: Averaging,
        seed: int = 0,
        resamples: int = RESAMPLES,
        level: float = LEVEL,
        clusters: NDArray[Any] | None = None,
    ) -> Self:
        """Compare predictions, of shape ``(rows,)`` as the labels.

        Args:
            task: The task; only one with one class for each row has McNemar's test.
            metrics: Entries of the metric table with ``resampled``.
            labels: True values.
            first: Predictions of the first model.
            second: Predictions of the second model.
            average: How F1 is averaged over the classes.
            seed: Seed of the resampling.
            resamples: Number of resamples.
            level: Confidence level of the intervals.
            clusters: Cluster of each row, from 0; ``None``: each row is on its own.
        """
        options: dict[str, Any] = {
            "average": average,
            "seed": seed,
            "resamples": resamples,
            "level": level,
            "clusters": clusters,
        }
        differences = {}
        for metric in metrics:
            differences[metric.name] = paired_difference(metric, labels, first, second, **options)

        test = None
        if task.one_class:
            test = McNemar.of(~task.errors(first, labels), ~task.errors(second, labels), clusters)
        return cls(differences, test)
