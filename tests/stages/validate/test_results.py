"""Results of failing checks: counts, the worst rows, the rows they repeat; and checks that crash."""

import numpy as np
import pytest

from stages.validate.expectations import ExpectColumnLargestShareToBeAtMost
from stages.validate.results import CheckResult, check_tables
from stages.validate.tables import derive_tables
from stages.validate.violations import excess_of_rows
from tuneline.files.schemas import LabelSchema


def failed(results) -> CheckResult:
    (result,) = [result for result in results.results if result.status != "passed"]
    return result


def test_result_counts_rows_and_lists_the_worst_first(data, check):
    for row, times in ((3, 1), (7, 4), (9, 2)):
        data.raw["train"]["two"][row] += "\x07" * times
    result = failed(check(data))
    assert result.found == "3 of 200 rows (1.5 %)"
    assert [row.number for row in result.worst] == [7, 9, 3]
    assert result.worst[0].values == {"control_characters": 4}
    assert result.worst[0].texts["two"].endswith("\\u0007" * 4)


def test_leak_names_the_row_that_it_repeats(data, check):
    for row in (10, 20):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw["validation"][name][row + 1]
    data.tokenize()
    result = failed(check(data))
    assert [row.number for row in result.worst] == [10, 20]
    assert result.worst[0].like.startswith(f"validation, row 11: {data.raw['validation']['one'][11]}"[:100])


def test_unknown_rate_lists_the_rows_with_most_unknown_tokens(data, check):
    for row in range(60):
        data.raw["test"]["one"][row] = "Ω " * (2 + row % 7) + data.raw["test"]["one"][row]
    result = failed(check(data.tokenize()))
    assert result.outcome.check == "unknown_rate"
    assert result.worst[0].number == 6
    assert result.worst[0].values["unknown_tokens"] == 8


def test_great_expectations_and_the_list_of_violations_count_the_same_rows(data, check):
    """Two folders say which rows fail: the expectation, which decides, and the ranking, which shows."""
    data.raw["train"]["one"][0] = " "
    data.raw["train"]["two"][1] = None
    data.raw["test"]["one"][2] += "\ufffd"
    data.tokenize()
    data.tokenized["test"]["attention_mask"][4][2] = 3
    data.tokenized["train"]["input_ids"][5][0] = 9
    data.tokenized["validation"]["token_type_ids"][6][0] = -1
    outcomes = [result.outcome for result in check(data).results]
    of_rows = [outcome for outcome in outcomes if outcome.failing is not None]
    assert sum(outcome.failing > 0 for outcome in of_rows) >= 6
    for outcome in of_rows:
        assert np.count_nonzero(excess_of_rows(outcome.table.frame, outcome.arguments) > 0) == outcome.failing, outcome


def test_failed_warning_is_not_an_error(data, check):
    data.raw["train"]["two"][3] += "\x07"
    results = check(data)
    assert (len(results.warnings), len(results.errors)) == (1, 0)


def test_severity_of_a_check_is_a_parameter(data, check):
    data.set_params(lambda values: values["validate"]["control_characters"].update(severity="error"))
    data.raw["train"]["two"][3] += "\x07"
    results = check(data)
    assert (len(results.warnings), len(results.errors)) == (0, 1)


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


def test_split_with_wrong_columns_is_not_checked_further(data, check):
    """No columns can be derived from it; the other splits are still checked."""
    del data.tokenized["test"]["token_type_ids"]
    results = check(data)
    assert {result.outcome.table.name for result in results.results if result.outcome.table.kind == "tokenized"} == {
        "tokenized-train",
        "tokenized-validation",
    }
    assert failed_columns(results) == [("tokenized token_type_ids: list of int8", "tokenized token_type_ids: absent")]


def failed_columns(results) -> list[tuple[str, ...]]:
    (result,) = results.errors
    return [tuple(row.values.values()) for row in result.worst]


def test_different_label_names_between_splits_fail(data, tmp_path):

    folders = data.write(tmp_path / "data")
    data.labels = LabelSchema(("no", "yes", "maybe"))
    other = data.write(tmp_path / "other")
    (other.raw / "test.parquet").replace(folders.raw / "test.parquet")
    results = check_tables(derive_tables(data.params, folders, None))
    assert failed_columns(results) == [("raw names of labels: no, yes, perhaps", "raw names of labels: no, yes, maybe")]


@pytest.mark.parametrize(("split", "passes"), [("validation", True), ("test", False), ("train", False)])
def test_split_without_labels_fails_if_it_is_trained_or_reported_on(split, passes, data, check):
    for table in (data.raw[split], data.tokenized[split]):
        table["labels"] = [-1] * len(table["labels"])
    failing = {result.outcome.check for result in check(data).errors}
    assert ("label_set" not in failing) is passes


def test_partly_labelled_split_fails(data, check):
    for table in (data.raw["validation"], data.tokenized["validation"]):
        table["labels"][:10] = [-1] * 10
    assert "label_set" in {result.outcome.check for result in check(data).errors}


def test_metrics_are_flat_finite_and_per_split(data, check):
    metrics = check(data).metrics
    assert metrics["train_rows"] == 200
    assert metrics["test_leakage_rate"] == 0
    assert metrics["validation_near_duplicate_rate"] == 0
    assert metrics["train_imbalance"] == pytest.approx(0.5, abs=0.02)
    assert 0 < metrics["test_vocabulary_overlap"] <= 1
    assert all(np.isfinite(value) for value in metrics.values())


def test_near_duplicates_are_searched_for_a_sample_only(data, check):
    """The rate of the sample is that of the check."""
    data.set_params(lambda values: values["validate"]["near_duplicates"].update(rows=12))
    results = check(data)
    checked = {result.outcome.rows for result in results.results if result.outcome.check == "near_duplicates"}
    assert checked == {12}
