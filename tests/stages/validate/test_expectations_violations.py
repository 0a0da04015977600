import numpy as np
import pytest

from stages.validate.checks import CHECK_TABLE, Table
from stages.validate.columns import write_columns
from stages.validate.expectations import MAX_CHARACTERS, Violations, excerpt
from tests.stages.validate.conftest import failed_result


def test_result_counts_rows_and_lists_the_worst_first(data, check):
    for row, times in ((3, 1), (7, 4), (9, 2)):
        data.raw["train"]["two"][row] += "\x07" * times
    result = failed_result(check(data, only=["control_characters"]))
    assert result.found == "3 of 200 rows (1.5 %)"
    assert [row.number for row in result.worst] == [7, 9, 3]
    assert result.worst[0].values == {"control_characters": 4}
    assert result.worst[0].texts["two"].endswith("\\u0007" * 4)


def test_leak_names_the_row_that_it_repeats(data, check):
    for row in (10, 20):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw["validation"][name][row + 1]
    data.tokenize()
    result = failed_result(check(data, only=["leakage"]))
    assert [row.number for row in result.worst] == [10, 20]
    assert result.worst[0].like.startswith(f"validation, row 11: {data.raw['validation']['one'][11]}"[:100])
    assert list(result.notes) == ["Of these rows, 2 repeat a row of validation."]


def test_leaks_and_near_duplicates_within_the_limit_are_told_by_split(data, check):
    """Rows that are in no split otherwise: the last ones of test."""
    for row, (split, other) in enumerate(
        (("train", 3), ("validation", 4), ("validation", 5), ("test", 9)), start=56
    ):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw[split][name][other]
        if split != "train":
            data.raw["test"]["one"][row] += " and more"
    results = check(data.tokenize(), only=["leakage", "near_duplicates"]).record.checks
    notes = {
        (result.check, result.split): list(result.notes)
        for result in results
        if result.status == "passed" and result.notes
    }
    assert notes == {
        ("leakage", "test"): ["Of these rows, 1 repeats a row of train."],
        ("near_duplicates", "test"): [
            "Of these rows, 2 resemble a row of validation, 1 resembles a row of test."
        ],
    }


def test_unknown_rate_lists_the_rows_with_most_unknown_tokens(data, check):
    for row in range(60):
        data.raw["test"]["one"][row] = "Ω " * (2 + row % 7) + data.raw["test"]["one"][row]
    result = failed_result(check(data.tokenize(), only=["unknown_rate"]))
    assert result.check == "unknown_rate"
    assert result.worst[0].number == 6
    assert result.worst[0].values["unknown_tokens"] == 8


def test_listed_rows_are_as_many_as_great_expectations_counts(data, check):
    data.raw["train"]["one"][0] = " "
    data.raw["train"]["two"][1] = None
    data.raw["test"]["one"][2] += "\ufffd"
    data.tokenize()
    data.tokenized["test"]["attention_mask"][4][2] = 3
    data.tokenized["train"]["input_ids"][5][0] = 9
    data.tokenized["validation"]["token_type_ids"][6][0] = -1
    results = check(data)
    failing = [(entry.check, entry.split, entry.failing) for entry in results.record.checks if entry.failing]
    assert len(failing) >= 6
    listed = {
        (one.check.key, one.table.split, len(one.rows))
        for one in results.violations
        if one.check.ranks is None
    }
    assert listed == set(failing)


@pytest.mark.parametrize(
    ("check", "arguments", "columns", "order"),
    [
        (
            "length_outliers",
            {"column": "characters", "min_value": 3, "max_value": 5},
            {"characters": [1, 2, 7, 99]},
            [3, 0, 2, 1],
        ),
        (
            "blank_text",
            {"column": "visible_characters", "min_value": 1},
            {"visible_characters": [0, -2, 0]},
            [1, 0, 2],
        ),
        ("truncation_rate", {"column": "tokens", "max_value": 5}, {"tokens": [6, 9, 7]}, [1, 2, 0]),
        (
            "unknown_rate",
            {"column": "unknown_rate"},
            {"unknown_tokens": [1, 3, 2], "content_tokens": [9, 9, 9]},
            [1, 2, 0],
        ),
        (
            "near_duplicates",
            {"column": "near_duplicate_of"},
            {"near_duplicate_of": [0, 0, 0], "similarity": [0.8, 0.7, 0.9]},
            [2, 0, 1],
        ),
        (
            "token_labels",
            {"column_A": "labels", "column_B": "raw_labels"},
            {"labels": [0, 1], "raw_labels": [1, 2]},
            [0, 1],
        ),
    ],
)
def test_worst_rows_are_those_farthest_from_the_limit(check, arguments, columns, order, tmp_path):
    stored = write_columns(
        tmp_path / "columns.parquet", {name: np.array(values) for name, values in columns.items()}
    )
    found = Violations(
        CHECK_TABLE[check], Table("tokenized", "train", stored), arguments, np.arange(len(order))
    )
    assert np.argsort(-found.excess(), kind="stable").tolist() == order


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
