from types import SimpleNamespace

import numpy as np
import pytest
from great_expectations.expectations.core import ExpectColumnValuesToBeBetween

from stages.validate.checks import Table, expectations
from stages.validate.columns import write_columns
from stages.validate.expectations import (
    batch_definition,
    check_tables,
    exception_message,
    read_outcome,
    run_expectations,
)
from stages.validate.tables import derive_tables


def test_crashed_check_is_an_error_whatever_its_severity(data, check, monkeypatch):
    """Great Expectations turns an exception into a result, which must never count as passed."""

    def crash(*_, **__):
        raise ZeroDivisionError("a bug in the check")

    monkeypatch.setattr("great_expectations.expectations.core.ExpectTableRowCountToEqual._validate", crash)
    data.set_params(lambda values: values["validate"]["row_count"].update(severity="warning"))
    results = check(data, only=["row_count"])
    assert {(entry.check, entry.status, entry.severity) for entry in results.errors} == {
        ("row_count", "crashed", "warning")
    }
    assert "a bug in the check" in results.errors[0].found


def test_check_of_a_missing_column_is_an_error(data, tmp_path):
    """The metric of the expectation crashes, not the expectation itself."""
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    table = next(table for table in derived.tables if table.name == "tokenized-test")
    del table.columns.places["content_tokens"]
    derived.tables[:] = [table]
    crashed = {entry.check for entry in check_tables(derived).record.checks if entry.status == "crashed"}
    assert crashed == {"empty_rows"}


def test_results_of_parts_are_those_of_the_whole(data, tmp_path):
    """Of checks that pass, that fail within their limit, that fail, and of one that crashes."""
    for row in (4, 110, 199):
        data.raw["train"]["one"][row] += "\x07\x07"
    for row in range(150, 160):
        data.raw["train"]["two"][row] = data.raw["train"]["two"][row - 100] = "\ufffd"
    data.raw["train"]["labels"][90] = 7
    data.tokenize()
    data.tokenized["train"]["attention_mask"][120][2] = 3
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    tables = [table for table in derived.tables if table.split == "train"]
    del next(table for table in tables if table.kind == "tokenized").columns.places["smallest_mask"]
    for table in tables:
        expected = list(expectations(table, data.params.validate_))
        whole, parts = (
            run_expectations(table, expected, batch_definition(), at_most) for at_most in (250, 110)
        )
        assert [comparable(*one) for one in parts] == [comparable(*one) for one in whole]


def comparable(result, rows) -> str:
    """Return what the report shows; the arguments have an id of the batch."""
    shown = {key: value for key, value in result.expectation_config.kwargs.items() if key != "batch_id"}
    crashed = exception_message(result) is not None
    return str(
        (
            result.expectation_config.type,
            shown,
            result.success,
            crashed,
            sorted(result.result.items()),
            rows.tolist(),
        )
    )


@pytest.fixture
def table(tmp_path):
    """A table of four rows; one has no value."""
    return Table(
        "tokenized",
        "train",
        write_columns(tmp_path / "columns.parquet", {"tokens": np.array([1.0, 7.0, 9.0, np.nan])}),
    )


def test_outcome_has_check_arguments_counts_and_rows(table):
    expectation = ExpectColumnValuesToBeBetween(
        column="tokens", max_value=5, meta={"check": "truncation_rate", "requirement": 0}
    )
    [(result, rows)] = run_expectations(table, [expectation], batch_definition())
    outcome = read_outcome(table, result)
    assert (outcome.check.key, outcome.type, outcome.passed, outcome.crashed) == (
        "truncation_rate",
        "expect_column_values_to_be_between",
        False,
        None,
    )
    assert outcome.arguments == {"column": "tokens", "max_value": 5}
    assert (outcome.rows, outcome.failing, rows.tolist()) == (3, 2, [1, 2])


def test_missing_result_is_an_error_and_not_a_pass(table, monkeypatch):
    expectation = ExpectColumnValuesToBeBetween(
        column="tokens", max_value=5, meta={"check": "truncation_rate", "requirement": 0}
    )
    whole = batch_definition()
    batch = whole.get_batch({"dataframe": next(table.columns.frames(["tokens"]))})
    monkeypatch.setattr(type(batch), "validate", lambda *_, **__: SimpleNamespace(results=[]))
    with pytest.raises(ValueError, match="truncation_rate"):
        run_expectations(table, [expectation], whole)
