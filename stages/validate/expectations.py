"""Expectations and column metrics that Great Expectations lacks: bin counts, largest fraction, ratio of two columns, drift."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from great_expectations.expectations.metrics.column_aggregate_metric_provider import ColumnAggregateMetricProvider, column_aggregate_value
from great_expectations.expectations.metrics.metric_provider import metric_value

from tuneline.drift import Counts, Distance, bin_counts, kolmogorov_smirnov, population_stability


class ColumnBinCounts(ColumnAggregateMetricProvider):
    """Rows in each bin; ``edges`` as in ``Distribution``."""

    metric_name = "column.bin_counts"
    value_keys = ("edges",)

    @column_aggregate_value(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, edges: list[float], **_: Any) -> list[int]:  # noqa: N805
        counts: list[int] = bin_counts(column.to_numpy(), np.array(edges)).tolist()
        return counts


class ColumnLargestShare(ColumnAggregateMetricProvider):
    """Fraction of the rows that have the most frequent value."""

    metric_name = "column.largest_share"

    @column_aggregate_value(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, **_: Any) -> float:  # noqa: N805
        return float(column.value_counts(normalize=True).max())


class ColumnShareOfTotal(ColumnAggregateMetricProvider):
    """Sum of a column divided by the sum of the column ``total``; 0 if that is 0."""

    metric_name = "column.share_of_total"
    value_keys = ("total",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        **_: Any,
    ) -> float:
        domain = execution_engine.get_compute_domain(domain_kwargs=metric_domain_kwargs, domain_type=MetricDomainTypes.COLUMN)
        frame, column = domain[0], domain[2]["column"]
        total = frame[metric_value_kwargs["total"]].sum()
        return float(frame[column].sum() / total) if total else 0.0


class ColumnMetricExpectation(ColumnAggregateExpectation, ABC):
    """An expectation of the one metric named in ``metric_dependencies``."""

    def _validate(
        self,
        metrics: dict[Any, Any],
        runtime_configuration: dict[Any, Any] | None = None,  # noqa: ARG002
        execution_engine: ExecutionEngine[Any] | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        (name,) = self.metric_dependencies
        return self.evaluate(metrics[name])

    @abstractmethod
    def evaluate(self, metric: Any) -> dict[str, Any]:
        """Return ``success``, and ``result`` with the ``observed_value``."""


class ExpectColumnLargestShareToBeAtMost(ColumnMetricExpectation):
    """The most frequent value of the column makes up at most a fraction ``max_value`` of the rows."""

    max_value: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.largest_share",)
    success_keys: ClassVar[tuple[str, ...]] = ("max_value",)

    def evaluate(self, metric: Any) -> dict[str, Any]:
        """Compare the metric with ``max_value``."""
        return {"success": metric <= self.max_value, "result": {"observed_value": metric}}


class ExpectColumnShareOfTotalToBeAtMost(ColumnMetricExpectation):
    """The sum of the column is at most ``max_value`` times the sum of the column ``total``."""

    total: str
    max_value: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.share_of_total",)
    success_keys: ClassVar[tuple[str, ...]] = ("total", "max_value")

    def evaluate(self, metric: Any) -> dict[str, Any]:
        """Compare the metric with ``max_value``."""
        return {"success": metric <= self.max_value, "result": {"observed_value": metric}}


class DriftExpectation(ColumnMetricExpectation, ABC):
    """A distance of the column's distribution from a reference is small or not significant.

    Attributes:
        edges: Edges of the bins.
        counts: Rows of the reference in each bin.
        max_value: Largest distance that always passes.
        significance: A larger distance passes if its p-value is above this.
    """

    edges: list[float]
    counts: list[int]
    max_value: float
    significance: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.bin_counts",)
    success_keys: ClassVar[tuple[str, ...]] = ("edges", "counts", "max_value", "significance")

    def evaluate(self, metric: Any) -> dict[str, Any]:
        """Compare the distance with ``max_value``, and its p-value with ``significance``."""
        distance, p_value = self.distance(np.array(metric), np.array(self.counts))
        passed = distance <= self.max_value or p_value > self.significance
        return {"success": passed, "result": {"observed_value": distance, "details": {"p_value": p_value}}}

    @abstractmethod
    def distance(self, counts: Counts, reference: Counts) -> Distance:
        """Return the distance of two histograms over the same bins, and its p-value."""


class ExpectColumnStabilityIndexToBeAtMost(DriftExpectation):
    """The population stability index against a reference is small or not significant."""

    def distance(self, counts: Counts, reference: Counts) -> Distance:
        """Return the population stability index over merged bins."""
        return population_stability(counts, reference)


class ExpectColumnKsDistanceToBeAtMost(DriftExpectation):
    """The Kolmogorov-Smirnov distance from a reference is small or not significant."""

    def distance(self, counts: Counts, reference: Counts) -> Distance:
        """Return the Kolmogorov-Smirnov distance."""
        return kolmogorov_smirnov(counts, reference)
