import pandas as pd
import pytest
from great_expectations.expectations.core import ExpectColumnValuesToBeBetween

from stages.validate.columns import FrameColumns
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
    del table.columns.places["unknown_tokens"]
    crashed = {result.outcome.check for result in check_tables(derived).results if result.status == "crashed"}
    assert crashed == {"unknown_rate"}


def test_results_of_parts_are_those_of_the_whole(data, tmp_path):
    """Of checks that pass, that fail within their limit, that fail, and of one that crashes."""
    for row in (4, 110, 199):
        data.raw["train"]["one"][row] += "\x07\x07"
    for row in range(150, 160):
        data.raw["train"]["two"][row] = data.raw["train"]["two"][row - 100] = "\ufffd"
    data.raw["train"]["labels"][90] = 7
    data.tokenize()
    data.tokenized["train"]["attention_mask"][120][2] = 3
    tables = [table for table in derive_tables(data.params, data.write(tmp_path / "data"), None).tables if table.split == "train"]
    del next(table for table in tables if table.kind == "tokenized").columns.places["smallest_mask"]
    for whole, parts in zip(run_suites(tables), run_suites(tables, at_most=110), strict=True):
        assert parts.statistics == whole.statistics
        assert sorted(map(comparable, parts.results)) == sorted(map(comparable, whole.results))


def comparable(result) -> str:
    """Return what the report shows; the arguments have an id of the batch."""
    crashed = "exception" in str(result.exception_info).replace("'raised_exception': False", "")
    shown = {key: value for key, value in result.expectation_config.kwargs.items() if key != "batch_id"}
    return str((result.expectation_config.type, shown, result.success, crashed, sorted(result.result.items())))


@pytest.fixture
def table():
    """A table with one expectation that two of four rows violate; one row has no value."""
    expectation = ExpectColumnValuesToBeBetween(column="tokens", max_value=5, meta={"check": "truncation"})
    return Table("tokenized", "train", FrameColumns(pd.DataFrame({"tokens": [1.0, 7.0, 9.0, None]})), [expectation])


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
