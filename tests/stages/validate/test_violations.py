import numpy as np
import pandas as pd
import pytest

from stages.validate.violations import MAX_CHARACTERS, excerpt, excess_of_rows, violations
from tests.stages.validate.conftest import failed_result


def test_result_counts_rows_and_lists_the_worst_first(data, check):
    for row, times in ((3, 1), (7, 4), (9, 2)):
        data.raw["train"]["two"][row] += "\x07" * times
    result = failed_result(check(data))
    assert result.found == "3 of 200 rows (1.5 %)"
    assert [row.number for row in result.worst] == [7, 9, 3]
    assert result.worst[0].values == {"control_characters": 4}
    assert result.worst[0].texts["two"].endswith("\\u0007" * 4)


def test_leak_names_the_row_that_it_repeats(data, check):
    for row in (10, 20):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw["validation"][name][row + 1]
    data.tokenize()
    result = failed_result(check(data))
    assert [row.number for row in result.worst] == [10, 20]
    assert result.worst[0].like.startswith(f"validation, row 11: {data.raw['validation']['one'][11]}"[:100])
    assert result.notes == ("Of these rows, 2 repeat a row of validation.",)


def test_leaks_and_near_duplicates_within_the_limit_are_told_by_split(data, check):
    """Rows that are in no split otherwise: the last ones of test."""
    for row, (split, other) in enumerate((("train", 3), ("validation", 4), ("validation", 5), ("test", 9)), start=56):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw[split][name][other]
        if split != "train":
            data.raw["test"]["one"][row] += " and more"
    results = check(data.tokenize()).results
    notes = {(result.check.key, result.split): result.notes for result in results if result.status == "passed" and result.notes}
    assert notes == {
        ("leakage", "test"): ("Of these rows, 1 repeats a row of train.",),
        ("near_duplicates", "test"): ("Of these rows, 2 resemble a row of validation, 1 resembles a row of test.",),
    }


def test_unknown_rate_lists_the_rows_with_most_unknown_tokens(data, check):
    for row in range(60):
        data.raw["test"]["one"][row] = "Ω " * (2 + row % 7) + data.raw["test"]["one"][row]
    result = failed_result(check(data.tokenize()))
    assert result.outcome.check == "unknown_rate"
    assert result.worst[0].number == 6
    assert result.worst[0].values["unknown_tokens"] == 8


def test_great_expectations_and_the_list_of_violations_count_the_same_rows(data, check):
    """The expectation decides whether a row fails, and the ranking selects the rows of the report: both must agree."""
    data.raw["train"]["one"][0] = " "
    data.raw["train"]["two"][1] = None
    data.raw["test"]["one"][2] += "\ufffd"
    data.tokenize()
    data.tokenized["test"]["attention_mask"][4][2] = 3
    data.tokenized["train"]["input_ids"][5][0] = 9
    data.tokenized["validation"]["token_type_ids"][6][0] = -1
    outcomes = [result.outcome for result in check(data).results]
    row_outcomes = [outcome for outcome in outcomes if outcome.failing is not None]
    assert sum(outcome.failing > 0 for outcome in row_outcomes) >= 6
    for outcome in row_outcomes:
        assert sum(len(rows) for rows, _ in violations(outcome)) == outcome.failing, outcome


@pytest.mark.parametrize(
    ("arguments", "excess"),
    [
        ({"min_value": 3, "max_value": 5}, [2, 0, 0, 4]),
        ({"min_value": 3}, [2, 0, 0, 0]),
        ({"max_value": 5}, [0, 0, 0, 4]),
        ({"value_set": [1, 3, 5]}, [0, 0, 0, 1]),
        ({"total": "tokens"}, [1, 3, 5, 9]),
    ],
    ids=["range", "minimum", "maximum", "set", "ratio"],
)
def test_excess_is_the_distance_of_a_row_from_what_is_allowed(arguments, excess):
    frame = pd.DataFrame({"value": [1, 3, 5, 9], "tokens": 10})
    assert excess_of_rows(frame, {"column": "value", **arguments}).tolist() == excess


def test_excess_of_near_duplicates_is_their_similarity():
    frame = pd.DataFrame({"near_duplicate_of": [-1, 4, 7], "similarity": [0.0, 0.8, 0.9]})
    assert excess_of_rows(frame, {"column": "near_duplicate_of", "value_set": [-1]}).tolist() == [0.0, 0.8, 0.9]


def test_excess_of_two_columns_counts_the_rows_that_differ():
    frame = pd.DataFrame({"labels": [0, 1, 2], "raw_labels": [0, 2, 2]})
    np.testing.assert_array_equal(excess_of_rows(frame, {"column_A": "labels", "column_B": "raw_labels"}), [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "(missing)"),
        ("line\nline", "line\\u000aline"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("x" * MAX_CHARACTERS, "x" * MAX_CHARACTERS),
        ("x" * (MAX_CHARACTERS + 1), "x" * MAX_CHARACTERS + "…"),
    ],
    ids=["missing", "line end", "writing direction", "longest", "too long"],
)
def test_excerpt_is_one_printable_line_of_limited_length(text, expected):
    assert excerpt(text) == expected
