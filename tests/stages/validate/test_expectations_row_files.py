"""The violating rows of each check as Parquet."""

import pyarrow.parquet as pq
import pytest

from stages.validate import expectations as violations
from stages.validate.expectations import check_tables, write_row_files
from stages.validate.tables import derive_tables
from tests.stages.validate.data import Data
from tuneline.tasks import Classification


@pytest.fixture
def write(tmp_path):
    """Return a function that checks data and returns the rows of each file."""

    def run(data: Data) -> dict[str, list[dict]]:
        derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
        write_row_files(tmp_path / "rows", check_tables(derived).violations, derived.raw, data.columns)
        return {path.stem: pq.read_table(path).to_pylist() for path in (tmp_path / "rows").glob("*.parquet")}

    return run


def copy_row(data: Data, source: tuple[str, int], target: tuple[str, int]) -> None:
    for name in data.columns:
        data.raw[target[0]][name][target[1]] = data.raw[source[0]][name][source[1]]


def test_all_violating_rows_are_written_with_texts_and_reasons(data, write, monkeypatch):
    monkeypatch.setattr("tuneline.core.tables.ROW_GROUP", 7)  # of the raw files
    monkeypatch.setattr(violations, "ROW_GROUP", 4)
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
    data.raw["train"]["row"][51], data.raw["train"]["two"][52] = None, "  "
    data.raw["train"]["row"][3] = "ban [SEP] [SEP] den"
    data.labels = Classification(("no", "yes", "No"))
    data.tokenize()
    first = data.tokenized["train"]["input_ids"][3][0] = data.tokenized["train"]["input_ids"][4][1]
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
        ("train", row, data.raw["train"]["two"][row], f"control characters {row - 19} (at most 0)")
        for row in noisy
    ]
    assert [(row["row"], row["row_"]) for row in rows["missing_values"]] == [(51, None)]
    assert [(row["row"], row["two"]) for row in rows["blank_in_pair"]] == [(52, "  ")]
    several = [(row["row"], row["reason"]) for row in rows["special_tokens"]]
    assert several == [(3, f"first id {first}; special tokens 4 (at least 3, at most 3)")], (
        "two expectations of one check"
    )
    assert {(row["split"], row["reason"]) for row in rows["class_names"]} == {
        (split, "class 'No'") for split in data.raw
    }
    assert "label_set" not in rows, "a check without violating rows has no file"
