"""What is told of a failing check: counts, the worst rows, what they repeat; and what a check that crashes does."""

import numpy as np
import pytest

from stages.validate.checking import judge
from stages.validate.expectations import shares
from stages.validate.findings import Finding, miss
from stages.validate.gathering import gather


def failed(checked) -> Finding:
    (finding,) = [finding for finding in checked.verdict.findings if finding.status != "passed"]
    return finding


def test_a_finding_counts_the_rows_and_names_the_worst_first(data, checked):
    for row, times in ((3, 1), (7, 4), (9, 2)):
        data.raw["train"]["two"][row] += "\x07" * times
    finding = failed(checked(data))
    assert finding.found == "3 of 200 rows (1.5 %)"
    assert [row.number for row in finding.worst] == [7, 9, 3]
    assert finding.worst[0].values == {"control_characters": 4}
    assert finding.worst[0].texts["two"].endswith("\\u0007" * 4)


def test_a_leak_says_where_the_text_stands_already(data, checked):
    for row in (10, 20):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw["validation"][name][row + 1]
    data.tokenize()
    finding = failed(checked(data))
    assert [row.number for row in finding.worst] == [10, 20]
    assert finding.worst[0].like.startswith(f"validation, row 11: {data.raw['validation']['one'][11]}"[:100])


def test_a_share_of_tokens_names_the_rows_that_add_most_to_it(data, checked):
    for row in range(60):
        data.raw["test"]["one"][row] = "Ω " * (2 + row % 7) + data.raw["test"]["one"][row]
    finding = failed(checked(data.tokenize()))
    assert finding.outcome.check == "unknown_rate"
    assert finding.worst[0].number == 6
    assert finding.worst[0].values["unknown_tokens"] == 8


def test_great_expectations_and_the_list_of_the_worst_see_the_same_rows(data, checked):
    """Two places say which rows fail: the expectation, which decides, and the ranking, which shows."""
    data.raw["train"]["one"][0] = " "
    data.raw["train"]["two"][1] = None
    data.raw["test"]["one"][2] += "\ufffd"
    data.tokenize()
    data.tokenized["test"]["attention_mask"][4][2] = 3
    data.tokenized["train"]["input_ids"][5][0] = 9
    data.tokenized["validation"]["token_type_ids"][6][0] = -1
    outcomes = [finding.outcome for finding in checked(data).verdict.findings]
    of_rows = [outcome for outcome in outcomes if outcome.failing is not None]
    assert sum(outcome.failing > 0 for outcome in of_rows) >= 6
    for outcome in of_rows:
        assert np.count_nonzero(miss(outcome.table.frame, outcome.arguments) > 0) == outcome.failing, outcome


def test_a_warning_does_not_stop_the_line_and_an_error_does(data, checked):
    data.raw["train"]["two"][3] += "\x07"
    verdict = checked(data).verdict
    assert (len(verdict.warnings), len(verdict.errors)) == (1, 0)


def test_the_severity_of_a_check_is_a_parameter(data, checked):
    data.set_params(lambda values: values["validate"]["control_characters"].update(severity="error"))
    data.raw["train"]["two"][3] += "\x07"
    verdict = checked(data).verdict
    assert (len(verdict.warnings), len(verdict.errors)) == (0, 1)


def test_a_check_that_crashes_is_an_error_whatever_its_severity(data, tmp_path, monkeypatch):
    """Great Expectations turns an exception into a result; it must never be taken for a pass."""

    def crash(*_):
        raise ZeroDivisionError("a bug in the check")

    monkeypatch.setattr(shares.ExpectColumnLargestShareToBeAtMost, "judge", crash)
    verdict = judge(gather(data.params, data.write(tmp_path / "data"), None)).verdict
    assert {(finding.outcome.check, finding.status, finding.severity) for finding in verdict.errors} == {
        ("class_balance", "crashed", "warning")
    }
    assert "a bug in the check" in verdict.errors[0].found


def test_a_metric_that_crashes_is_an_error_too(data, tmp_path):
    """The column that an expectation is about is not there."""
    evidence = gather(data.params, data.write(tmp_path / "data"), None)
    table = next(table for table in evidence.tables if table.name == "tokenized-test")
    del table.frame["unknown_tokens"]
    crashed = {finding.outcome.check for finding in judge(evidence).verdict.findings if finding.status == "crashed"}
    assert crashed == {"unknown_rate"}


def test_a_split_whose_columns_are_wrong_is_not_judged_further(data, checked):
    """Nothing can be derived from it, and the other splits are judged all the same."""
    del data.tokenized["test"]["token_type_ids"]
    verdict = checked(data).verdict
    assert {finding.outcome.table.name for finding in verdict.findings if finding.outcome.table.kind == "tokenized"} == {
        "tokenized-train",
        "tokenized-validation",
    }
    assert failed_columns(verdict) == [("tokenized token_type_ids: list of int8", "tokenized token_type_ids: absent")]


def failed_columns(verdict) -> list[tuple[str, ...]]:
    (finding,) = verdict.errors
    return [tuple(row.values.values()) for row in finding.worst]


def test_label_names_that_differ_between_splits_fail(data, tmp_path):
    from stages.validate.checking import check
    from tuneline.files.schemas import LabelSchema

    places = data.write(tmp_path / "data")
    data.labels = LabelSchema(("no", "yes", "maybe"))
    other = data.write(tmp_path / "other")
    (other.raw / "test.parquet").replace(places.raw / "test.parquet")
    verdict = check(data.params, places, None).verdict
    assert failed_columns(verdict) == [("raw names of labels: no, yes, perhaps", "raw names of labels: no, yes, maybe")]


@pytest.mark.parametrize(("split", "passes"), [("validation", True), ("test", False), ("train", False)])
def test_a_split_without_labels_may_be_neither_trained_nor_reported_on(split, passes, data, checked):
    for table in (data.raw[split], data.tokenized[split]):
        table["labels"] = [-1] * len(table["labels"])
    failing = {finding.outcome.check for finding in checked(data).verdict.errors}
    assert ("label_set" not in failing) is passes


def test_half_a_split_without_labels_is_a_fault(data, checked):
    for table in (data.raw["validation"], data.tokenized["validation"]):
        table["labels"][:10] = [-1] * 10
    assert "label_set" in {finding.outcome.check for finding in checked(data).verdict.errors}


def test_figures_are_flat_and_of_every_split(data, checked):
    figures = checked(data).verdict.figures
    assert figures["train_rows"] == 200
    assert figures["test_leakage_rate"] == 0
    assert figures["validation_near_duplicate_rate"] == 0
    assert figures["train_imbalance"] == pytest.approx(0.5, abs=0.02)
    assert 0 < figures["test_vocabulary_overlap"] <= 1
    assert all(np.isfinite(value) for value in figures.values())


def test_near_duplicates_beyond_the_sample_are_not_looked_up(data, checked):
    """The sample is chosen by text; its share stands for all rows."""
    data.set_params(lambda values: values["validate"]["near_duplicates"].update(rows=12))
    verdict = checked(data).verdict
    judged = {finding.outcome.rows for finding in verdict.findings if finding.outcome.check == "near_duplicates"}
    assert judged == {12}
