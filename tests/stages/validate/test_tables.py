import html

import pyarrow as pa
import pytest

from stages.validate.profile import profile_split
from stages.validate.raw import read_raw
from stages.validate.results import check_tables
from stages.validate.schemas import described, schema_frame
from stages.validate.tables import between_frame, derive_tables
from tuneline.files.schemas import LabelSchema, raw_schema, tokenized_schema
from tuneline.paths import SPLITS


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


def test_each_split_has_a_table_of_each_kind(data, tmp_path):
    tables = derive_tables(data.params, data.write(tmp_path / "data"), None).tables
    kinds = {split: {table.kind for table in tables if table.split == split} for split in SPLITS}
    assert kinds == {split: {"columns", "raw", "tokenized", "between"} for split in kinds}


def test_split_is_compared_with_train_and_with_the_promoted_data(data, tmp_path):
    folders = data.write(tmp_path / "data")
    raw = read_raw(folders.splits()["raw"], data.columns, folders.derived, data.params.run)
    train, test = raw["train"], raw["test"]
    [same] = between_frame(train, train.vocabulary, profile_split(train, data.labels)).to_dict("records")
    assert same == {"vocabulary_overlap": 1.0, "promoted_rows": 1.0, "promoted_vocabulary": pytest.approx(1.0)}
    [other] = between_frame(test, None, profile_split(train, data.labels)).to_dict("records")
    assert other["promoted_rows"] == test.rows / train.rows
    assert "vocabulary_overlap" not in other


def test_schema_of_lists_and_labels_is_described():
    schema = tokenized_schema(False, LabelSchema(("no", "yes")))
    assert described(schema) == {
        "input_ids": "list of int32",
        "attention_mask": "list of int8",
        "labels": "int64",
        "names of labels": "no, yes",
    }
    assert described(raw_schema(["text"], LabelSchema(None)))["names of labels"] == "numbers"


def test_schema_frame_has_absent_columns_and_escaped_names():
    expected, actual = pa.schema([("a", pa.string())]), pa.schema([("<b>", pa.string())])
    frame = schema_frame({"raw": (expected, actual)})
    assert frame["expected"].tolist() == [html.escape("raw <b>: absent"), "raw a: string"]
    assert frame["found"].tolist() == [html.escape("raw <b>: string"), "raw a: absent"]
