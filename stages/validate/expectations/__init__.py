"""The expectations that the suites are built from: those of Great Expectations, and ours where it has none."""

from great_expectations.expectations.core.expect_column_distinct_values_to_contain_set import ExpectColumnDistinctValuesToContainSet
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import ExpectColumnPairValuesToBeEqual
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.core.expect_table_row_count_to_equal import ExpectTableRowCountToEqual

from stages.validate.expectations.drift import ExpectColumnKsDistanceToBeAtMost, ExpectColumnStabilityIndexToBeAtMost
from stages.validate.expectations.shares import ExpectColumnLargestShareToBeAtMost, ExpectColumnShareOfTotalToBeAtMost

__all__ = [
    "ExpectColumnDistinctValuesToContainSet",
    "ExpectColumnKsDistanceToBeAtMost",
    "ExpectColumnLargestShareToBeAtMost",
    "ExpectColumnPairValuesToBeEqual",
    "ExpectColumnShareOfTotalToBeAtMost",
    "ExpectColumnStabilityIndexToBeAtMost",
    "ExpectColumnValuesToBeBetween",
    "ExpectColumnValuesToBeInSet",
    "ExpectTableRowCountToBeBetween",
    "ExpectTableRowCountToEqual",
]
