"""The expectations that the suites are built from: those of Great Expectations, and ours where it has none."""

from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import ExpectColumnPairValuesToBeEqual
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.core.expect_table_row_count_to_equal import ExpectTableRowCountToEqual

__all__ = [
    "ExpectColumnPairValuesToBeEqual",
    "ExpectColumnValuesToBeBetween",
    "ExpectColumnValuesToBeInSet",
    "ExpectTableRowCountToBeBetween",
    "ExpectTableRowCountToEqual",
]
