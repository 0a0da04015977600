import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.stage.tables import StoredLabels, tokenized_split_schema, write_table
from tuneline.model.tasks import Classification, Multilabel, Regression
from tuneline.model.tasks.columns import raw_schema, read_task, tokenized_schema

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
