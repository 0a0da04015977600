"""Results of Great Expectations: counts, examples, files of rows, exceptions."""

import pyarrow.parquet as pq
import pytest

from tests.tuneline.checks.conftest import failed_result
from tests.tuneline.checks.data import Data
from tuneline.checks import expectations
from tuneline.checks.expectations import (
    MAX_CHARACTERS,
    check_tables,
    excerpt,
    write_row_files,
)
from tuneline.checks.tables import derive_tables
from tuneline.model.tasks import Classification


@pytest.mark.parametrize(("split", "passes"), [("validation", True), ("test", False), ("train", False)])
def test_split_without_labels_fails_if_it_is_trained_or_reported_on(split, passes, data, check):
    for table in (data.raw[split], data.tokenized[split]):
        table["labels"] = [-1] * len(table["labels"])
    failing = {result.check for result in check(data, only=["label_set"]).errors}
    assert ("label_set" not in failing) is passes


def test_partly_labelled_split_fails(data, check):
    for table in (data.raw["validation"], data.tokenized["validation"]):
        table["labels"][:10] = [-1] * 10
    assert "label_set" in {result.check for result in check(data, only=["label_set"]).errors}


def test_result_counts_rows_and_shows_some(data, check):
    for row, times in ((3, 1), (7, 4), (9, 2)):
        data.raw["train"]["two"][row] += "\x07" * times
    result = failed_result(check(data, only=["control_characters"]))
    assert result.found == "3 of 200 rows (1.5 %)"
    assert [row.number for row in result.examples] == [3, 7, 9]
    assert result.examples[1].reason == "control characters 4"
    assert result.examples[1].texts["two"].endswith("\\u0007" * 4)


def test_example_of_a_repeated_row_has_the_other_row(data, check):
    for name in data.columns:
        data.raw["test"][name][:3] = data.raw["train"][name][:3]
    result = failed_result(check(data, only=["leakage"]))
    assert result.examples[0].reason == "repeats train row 0"
    assert result.examples[0].like == " | ".join(result.examples[0].texts.values())


def test_exception_of_a_check_ends_the_stage(data, check, monkeypatch):
    """Great Expectations turns an exception into a result, which must never count as passed."""

    def crash(*_, **__):
        raise ZeroDivisionError("a bug in the check")

    monkeypatch.setattr("great_expectations.expectations.core.ExpectColumnValuesToBeBetween._validate", crash)
    with pytest.raises(RuntimeError, match=r"row_count.*a bug in the check"):
        check(data, only=["row_count"])


@pytest.fixture
def write(tmp_path):
    """Return a function that checks data and returns the rows of each file."""

    def run(data: Data) -> dict[str, list[dict]]:
        derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
        write_row_files(tmp_path / "rows", check_tables(derived).outcomes, derived.raw, data.columns)
        return {path.stem: pq.read_table(path).to_pylist() for path in (tmp_path / "rows").glob("*.parquet")}

    return run


def copy_row(data: Data, source: tuple[str, int], target: tuple[str, int]) -> None:
    for name in data.columns:
        data.raw[target[0]][name][target[1]] = data.raw[source[0]][name][source[1]]


def test_all_violating_rows_are_written_with_texts_and_reasons(data, write, monkeypatch):
    monkeypatch.setattr("tuneline.core.stage.tables.ROW_GROUP", 7)  # of the raw files
    monkeypatch.setattr(expectations, "ROW_GROUP", 4)
    data.columns = ("row", "two")  # a text column with the name of a column of the file
    for columns in data.raw.values():
        columns["row"] = columns.pop("one")
    data.set_params(lambda values: values["data"].update(text_columns=["row", "two"]))
    copy_row(data, ("train", 5), ("train", 9))  # 2 of 200 rows: within the limit of duplicates
    copy_row(data, ("train", 6), ("train", 13))  # with another label: a conflict
    copy_row(data, ("validation", 2), ("test", 4))
    noisy = range(20, 50, 3)
    for row in noisy:  # more than the five rows of the report
        data.raw["train"]["two"][row] += "\x07" * (row - 19)
    data.labels = Classification(("no", "yes", "No"))
    data.tokenize()
    rows = write(data)
    assert rows["leakage"] == [
        {"split": "test", "row": 4, "row_": data.raw["test"]["row"][4], "two": data.raw["test"]["two"][4],
         "reason": "repeats validation row 2", "other_split": "validation", "other_row": 2},
    ]  # fmt: skip
    assert [(row["row"], row["other_row"], row["reason"]) for row in rows["duplicates"]] == [
        (9, 5, "repeats train row 5"),
        (13, 6, "repeats train row 6"),
    ]
    conflicts = [(row["row"], row["other_split"], row["other_row"]) for row in rows["conflicting_labels"]]
    assert conflicts == [(6, "train", 13), (13, "train", 6)]
    assert [(row["split"], row["row"], row["two"], row["reason"]) for row in rows["control_characters"]] == [
        ("train", row, data.raw["train"]["two"][row], f"control characters {row - 19}") for row in noisy
    ]
    assert {(row["split"], row["reason"]) for row in rows["class_names"]} == {
        (split, "class 'No'") for split in data.raw
    }
    assert "label_set" not in rows, "a check without violating rows has no file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "(missing)"),
        ("line\nline", "line\\u000aline"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("x" * (MAX_CHARACTERS + 1), "x" * MAX_CHARACTERS + "…"),
    ],
    ids=["missing", "line end", "writing direction", "too long"],
)
def test_excerpt_is_one_printable_line_of_limited_length(text, expected):
    assert excerpt(text) == expected
