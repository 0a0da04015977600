"""Measures of a column that Great Expectations has no metric for, and expectations of one measure."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from great_expectations.expectations.metrics.column_aggregate_metric_provider import ColumnAggregateMetricProvider, column_aggregate_value
from great_expectations.expectations.metrics.metric_provider import metric_value

from stages.validate.distributions import binned


class MeasuredColumn(ColumnAggregateExpectation, ABC):
    """An expectation that stands on the one metric it depends on."""

    def _validate(
        self,
        metrics: dict[Any, Any],
        runtime_configuration: dict[Any, Any] | None = None,  # noqa: ARG002
        execution_engine: ExecutionEngine[Any] | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        (name,) = self.metric_dependencies
        return self.judge(metrics[name])

    @abstractmethod
    def judge(self, measured: Any) -> dict[str, Any]:
        """The verdict on what was measured: ``success``, and ``result`` with the ``observed_value``."""


class ColumnBinCounts(ColumnAggregateMetricProvider):
    """Rows in each bin; ``edges`` as in ``Distribution``."""

    metric_name = "column.bin_counts"
    value_keys = ("edges",)

    @column_aggregate_value(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, edges: list[float], **_: Any) -> list[int]:  # noqa: N805
        counts: list[int] = binned(column.to_numpy(), np.array(edges)).tolist()
        return counts


class ColumnLargestShare(ColumnAggregateMetricProvider):
    """The share of rows that have the commonest value."""

    metric_name = "column.largest_share"

    @column_aggregate_value(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, **_: Any) -> float:  # noqa: N805
        return float(column.value_counts(normalize=True).max())


class ColumnShareOfTotal(ColumnAggregateMetricProvider):
    """The sum of a column over the sum of the column ``total``; 0 where that is 0."""

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
