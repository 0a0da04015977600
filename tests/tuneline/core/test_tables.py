import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tuneline.core.tables import StoredLabels, rebatch, tokenized_split_schema, write_table
from tuneline.runtime.errors import DataError
from tuneline.tasks import Classification, Multilabel, Regression
from tuneline.tasks.columns import label_type
from tuneline.tasks.schemas import raw_schema, read_task, tokenized_schema

QUEUES = Classification(("billing", "delivery"))
SCORE = Regression()


@pytest.mark.parametrize("labels", [QUEUES, SCORE])
def test_label_schema_is_stored_in_the_file(tmp_path, labels):
    schema = raw_schema(["text"], labels)
    write_table(
        pa.table({"text": ["a"], "labels": [1], "idx": [0]}, schema=schema), tmp_path / "train.parquet"
    )
    assert read_task(pq.read_schema(tmp_path / "train.parquet")) == labels


@pytest.mark.parametrize("labels", [QUEUES, SCORE, Multilabel(("grün", "rot"))])
def test_copied_labels_are_described_to_the_byte_as_those_of_the_task(labels, tmp_path):
    raw = tmp_path / "train.parquet"
    write_table(raw_schema(["text"], labels).empty_table(), raw)
    copied = tokenized_split_schema(True, StoredLabels.of(pq.read_schema(raw)), "mean")
    expected = tokenized_schema(True, labels, "mean")
    assert copied.metadata == expected.metadata
    assert copied.serialize() == expected.serialize()


def test_datasets_library_restores_class_names(tmp_path):
    from datasets import ClassLabel, Dataset, List, Value

    table = pa.table(
        {"input_ids": [[2, 3]], "attention_mask": [[1, 1]], "token_type_ids": [[0, 0]], "labels": [1]},
        schema=tokenized_schema(token_type_ids=True, task=QUEUES),
    )
    write_table(table, tmp_path / "train.parquet")
    features = Dataset.from_parquet(str(tmp_path / "train.parquet"), cache_dir=str(tmp_path)).features
    assert features["labels"] == ClassLabel(names=["billing", "delivery"])
    assert features["input_ids"] == List(Value("int32"))


def test_datasets_library_restores_a_regression(tmp_path):
    from datasets import Dataset, Value

    schema = raw_schema(["text"], SCORE)
    write_table(pa.table({"text": ["a"], "labels": [0.5], "idx": [0]}, schema=schema), tmp_path / "t.parquet")
    features = Dataset.from_parquet(str(tmp_path / "t.parquet"), cache_dir=str(tmp_path)).features
    assert features["labels"] == Value("float32")


def test_table_without_label_names_is_refused(tmp_path):
    pq.write_table(pa.table({"labels": [1]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match="no label names"):
        read_task(pq.read_schema(tmp_path / "other.parquet"))


def test_label_schema_has_number_of_outputs_and_arrow_type():
    assert (QUEUES.outputs, SCORE.outputs) == (2, 1)
    assert label_type(QUEUES) == pa.int64()
    assert label_type(SCORE) == pa.float32()


def test_tokenized_split_is_read_without_pandas_and_data_sets_of_many_files(tmp_path):
    """Training and comparison need neither, and each takes half a second to import."""
    schema = tokenized_schema(token_type_ids=False, task=QUEUES)
    rows = {"input_ids": [[1, 2], [3]], "attention_mask": [[1, 1], [1]], "labels": [0, 1]}
    write_table(pa.table(rows, schema=schema), tmp_path / "train.parquet")
    script = """
import sys
from pathlib import Path
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.core.tables import SplitReader
split = TokenizedSplit.read(SplitReader.open(Path(sys.argv[1]), "train", "tokenize"))
loaded = {"pandas", "pyarrow.dataset"} & set(sys.modules)
print(split.values["input_ids"].tolist(), split.labels.tolist(), loaded)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == "[1, 2, 3] [0, 1] set()\n"
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 7))
def test_batches_have_as_many_rows_each_whatever_those_that_are_read(sizes, rows):
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    batches = list(
        rebatch(
            (pa.record_batch({"number": part}) for part in numbers), pa.schema({"number": pa.int64()}), rows
        )
    )
    assert [len(batch) for batch in batches] == [rows] * (sum(sizes) // rows) + [sum(sizes) % rows] * (
        sum(sizes) % rows > 0
    )
    assert [number for batch in batches for number in batch["number"].to_pylist()] == list(range(sum(sizes)))
