"""Two models on the same rows: whether one is better, for the promotion gate and ``tuneline show --against``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from tuneline.metrics.stats import LEVEL, RESAMPLES, Difference, mcnemar_p_value, paired_difference
from tuneline.metrics.table import Averaging, Metric
from tuneline.tasks import Task


@dataclass(frozen=True)
class McNemar:
    """McNemar's test: are two classifiers right on equally many of the rows that only one predicts correctly?

    Attributes:
        p: Two-sided, exact.
    """

    first_only: int
    second_only: int
    p: float

    @classmethod
    def of(cls, labels: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Self:
        """Test predictions; arrays of shape ``(rows,)``."""
        right, other_right = first == labels, second == labels
        first_only, second_only = int((right & ~other_right).sum()), int((other_right & ~right).sum())
        return cls(first_only, second_only, mcnemar_p_value(first_only, second_only))


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same rows.

    Attributes:
        test: McNemar's test; ``None`` for a regression.
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
    ) -> Self:
        """Compare predictions, of shape ``(rows,)`` as the labels, by entries of the metric table with ``resampled``.

        ``average`` is that of F1, ``level`` the confidence level of the intervals.
        """
        options: dict[str, Any] = {"average": average, "seed": seed, "resamples": resamples, "level": level}
        differences = {
            metric.name: paired_difference(metric, labels, first, second, **options) for metric in metrics
        }
        test = McNemar.of(labels, first, second) if task.has_classes else None
        return cls(differences, test)
