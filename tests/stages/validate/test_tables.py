from stages.validate.expectations import check_tables
from stages.validate.tables import derive_tables, described
from tuneline.paths import SPLITS
from tuneline.tasks import Classification, Regression
from tuneline.tasks.schemas import raw_schema, tokenized_schema


def test_split_with_wrong_columns_is_not_checked_further(data, check):
    """No columns can be derived from it; the other splits are still checked."""
    del data.tokenized["test"]["token_type_ids"]
    results = check(data)
    assert {result.split for result in results.record.checks if result.table == "tokenized"} == {
        "train",
        "validation",
    }
    assert failed_columns(results) == [
        ("tokenized token_type_ids: list of int8", "tokenized token_type_ids: absent")
    ]


def failed_columns(results) -> list[tuple[str, ...]]:
    (result,) = results.errors
    return [tuple(row.values.values()) for row in result.worst]


def test_different_label_names_between_splits_fail(data, tmp_path):

    folders = data.write(tmp_path / "data")
    data.labels = Classification(("no", "yes", "maybe"))
    other = data.write(tmp_path / "other")
    (other.raw / "test.parquet").replace(folders.raw / "test.parquet")
    results = check_tables(derive_tables(data.params, folders, None))
    assert failed_columns(results) == [
        ("raw names of labels: no, yes, perhaps", "raw names of labels: no, yes, maybe")
    ]


def test_each_split_has_a_table_of_each_kind(data, tmp_path):
    tables = derive_tables(data.params, data.write(tmp_path / "data"), None).tables
    kinds = {split: {table.kind for table in tables if table.split == split} for split in SPLITS}
    assert kinds == {split: {"columns", "raw", "tokenized", "between"} for split in kinds}


def test_schema_of_lists_and_labels_is_described():
    schema = tokenized_schema(False, Classification(("no", "yes")))
    assert described(schema) == {
        "input_ids": "list of int32",
        "attention_mask": "list of int8",
        "labels": "int64",
        "names of labels": "no, yes",
    }
    assert described(raw_schema(["text"], Regression()))["names of labels"] == "numbers"


def test_drift_that_is_not_significant_is_none(data, tmp_path):
    """The distance is in words, and compared as 0 with its limit."""
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    table = next(table for table in derived.tables if (table.kind, table.split) == ("between", "test"))
    assert table.columns.column("length_drift").tolist() == [0.0]
    assert table.words["length_drift"].startswith("population stability index 0.")
    assert table.words["length_drift"].endswith(", not significant")
