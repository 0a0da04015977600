import pandas as pd
import pytest
from great_expectations.expectations.core import ExpectColumnValuesToBeBetween

from stages.validate.expectations import ExpectColumnLargestShareToBeAtMost
from stages.validate.results import check_tables
from stages.validate.runner import read_outcomes, run_suites
from stages.validate.tables import Table, derive_tables


def test_crashed_check_is_an_error_whatever_its_severity(data, tmp_path, monkeypatch):
    """Great Expectations turns an exception into a result, which must never count as passed."""

    def crash(*_):
        raise ZeroDivisionError("a bug in the check")

    monkeypatch.setattr(ExpectColumnLargestShareToBeAtMost, "evaluate", crash)
    results = check_tables(derive_tables(data.params, data.write(tmp_path / "data"), None))
    assert {(result.outcome.check, result.status, result.severity) for result in results.errors} == {
        ("class_balance", "crashed", "warning")
    }
    assert "a bug in the check" in results.errors[0].found


def test_check_of_a_missing_column_is_an_error(data, tmp_path):
    """The metric of the expectation crashes, not the expectation itself."""
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    table = next(table for table in derived.tables if table.name == "tokenized-test")
    del table.frame["unknown_tokens"]
    crashed = {result.outcome.check for result in check_tables(derived).results if result.status == "crashed"}
    assert crashed == {"unknown_rate"}


@pytest.fixture
def table():
    """A table with one expectation that two of four rows violate; one row has no value."""
    expectation = ExpectColumnValuesToBeBetween(column="tokens", max_value=5, meta={"check": "truncation"})
    return Table("tokenized", "train", pd.DataFrame({"row": range(4), "tokens": [1.0, 7.0, 9.0, None]}), [expectation])


def test_outcome_has_check_arguments_and_counts(table):
    [outcome] = read_outcomes([table], run_suites([table]))
    assert (outcome.check, outcome.type, outcome.passed, outcome.crashed) == (
        "truncation",
        "expect_column_values_to_be_between",
        False,
        None,
    )
    assert outcome.arguments == {"column": "tokens", "max_value": 5}
    assert (outcome.rows, outcome.failing) == (3, 2)


def test_missing_result_is_an_error_and_not_a_pass(table):
    [suite] = run_suites([table])
    suite.results.clear()
    with pytest.raises(ValueError, match="tokenized-train: 0 results for 1 expectations"):
        list(read_outcomes([table], [suite]))
