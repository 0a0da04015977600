import html
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from stages.validate.columns import write_columns
from stages.validate.expectations import check_tables
from stages.validate.tables import derive_tables, described, measurements, schema_columns
from tuneline.paths import SPLITS
from tuneline.reports.checks import Profile
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


def test_split_is_compared_with_train_and_with_the_promoted_data(data, tmp_path):
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    train, profile = derived.raw["train"], derived.profiles["train"]
    promoted = Profile(version=1, labels=derived.labels.names, splits={"train": profile, "test": profile})
    same = measurements(
        replace(derived, raw={"train": train, "test": train}, promoted=promoted), "test", None
    )
    assert (same["vocabulary_overlap"], same["promoted_rows"], same["promoted_vocabulary"]) == (
        1.0,
        1.0,
        pytest.approx(1.0),
    )
    assert (
        measurements(replace(derived, promoted=promoted), "test", None)["promoted_rows"]
        == derived.raw["test"].rows / train.rows
    )
    assert "vocabulary_overlap" not in measurements(derived, "train", None)


@pytest.mark.parametrize(
    ("unknown", "tokens", "share"), [([1, 0], [4, 6], 0.1), ([2, 1], [4, 6], 0.3), ([0, 0], [0, 0], 0.0)]
)
def test_unknown_rate_is_a_ratio_of_sums(unknown, tokens, share, data, tmp_path):
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    columns = {"unknown_tokens": np.array(unknown), "content_tokens": np.array(tokens)}
    found = measurements(derived, "train", write_columns(tmp_path / "tokenized.parquet", columns))
    assert found["unknown_rate"] == pytest.approx(share)
    assert found["class_balance"] == 100 / 200, "the fraction of the most frequent class"


def test_schema_of_lists_and_labels_is_described():
    schema = tokenized_schema(False, Classification(("no", "yes")))
    assert described(schema) == {
        "input_ids": "list of int32",
        "attention_mask": "list of int8",
        "labels": "int64",
        "names of labels": "no, yes",
    }
    assert described(raw_schema(["text"], Regression()))["names of labels"] == "numbers"


def test_schema_columns_has_absent_columns_and_escaped_names():
    expected, actual = pa.schema([("a", pa.string())]), pa.schema([("<b>", pa.string())])
    frame = schema_columns({"raw": (expected, actual)})
    assert frame["expected"].tolist() == [html.escape("raw <b>: absent"), "raw a: string"]
    assert frame["found"].tolist() == [html.escape("raw <b>: string"), "raw a: absent"]
