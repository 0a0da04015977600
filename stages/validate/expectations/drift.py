"""Expectations that a column is distributed as another one was."""

from typing import Any, ClassVar

import numpy as np

from stages.validate import distributions
from stages.validate.expectations.measures import MeasuredColumn


class ExpectColumnStabilityIndexToBeAtMost(MeasuredColumn):
    """The population stability index against a reference is small, or no larger than chance makes it.

    Attributes:
        edges: Of the bins.
        counts: Rows of the reference in each bin.
        max_value: Of the index.
        significance: An index that chance alone makes more often than this is let through.
    """

    edges: list[float]
    counts: list[int]
    max_value: float
    significance: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.bin_counts",)
    success_keys: ClassVar[tuple[str, ...]] = ("edges", "counts", "max_value", "significance")

    def judge(self, measured: Any) -> dict[str, Any]:
        """See the class."""
        here, there = distributions.coarse(np.array(measured), np.array(self.counts))
        index = distributions.stability_index(here, there)
        chance = distributions.stability_chance(index, here, there)
        return _verdict(index, chance, self.max_value, self.significance)


class ExpectColumnKsDistanceToBeAtMost(MeasuredColumn):
    """The Kolmogorov-Smirnov distance from a reference is small, or no larger than chance makes it.

    Attributes:
        edges: Of the bins.
        counts: Rows of the reference in each bin.
        max_value: Of the distance.
        significance: A distance that chance alone makes more often than this is let through.
    """

    edges: list[float]
    counts: list[int]
    max_value: float
    significance: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.bin_counts",)
    success_keys: ClassVar[tuple[str, ...]] = ("edges", "counts", "max_value", "significance")

    def judge(self, measured: Any) -> dict[str, Any]:
        """See the class."""
        here, there = np.array(measured), np.array(self.counts)
        distance = distributions.ks_distance(here, there)
        chance = distributions.ks_chance(distance, here, there)
        return _verdict(distance, chance, self.max_value, self.significance)


def _verdict(value: float, chance: float, limit: float, significance: float) -> dict[str, Any]:
    passed = value <= limit or chance > significance
    return {"success": passed, "result": {"observed_value": value, "details": {"chance": chance}}}
