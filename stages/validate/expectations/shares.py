"""Expectations of one share of a whole column."""

from typing import Any, ClassVar

from stages.validate.expectations.measures import MeasuredColumn


class ExpectColumnLargestShareToBeAtMost(MeasuredColumn):
    """The commonest value of the column stands in at most a share of the rows."""

    max_value: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.largest_share",)
    success_keys: ClassVar[tuple[str, ...]] = ("max_value",)

    def judge(self, measured: Any) -> dict[str, Any]:
        """See the class."""
        return {"success": measured <= self.max_value, "result": {"observed_value": measured}}


class ExpectColumnShareOfTotalToBeAtMost(MeasuredColumn):
    """The sum of the column is at most a share of the sum of the column ``total``."""

    total: str
    max_value: float
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.share_of_total",)
    success_keys: ClassVar[tuple[str, ...]] = ("total", "max_value")

    def judge(self, measured: Any) -> dict[str, Any]:
        """See the class."""
        return {"success": measured <= self.max_value, "result": {"observed_value": measured}}
