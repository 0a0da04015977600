"""Labelled rows of a file: the same labels, whatever the type of the column."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.readers.formats import FORMATS
from tuneline.readers.labelled import LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRows
from tuneline.readers.tables import Input, open_table


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([1, 0, None], pa.int8()),
        pa.array([1.0, 0.0, float("nan")]),
        pa.array(["1.0", " 0 ", ""]),
        pa.array(["1", "0", None], pa.large_string()),
        pa.array([Decimal("1.00"), Decimal("0.00"), None]),
        pa.array(["1", "0", None]).dictionary_encode(),
    ],
    ids=lambda labels: str(labels.type),
)
def test_labels_of_any_type_of_column_are_the_same_classes(tmp_path, labels):
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": labels}), tmp_path / "in.parquet")
    with open_table(Input(tmp_path / "in.parquet", FORMATS["parquet"].usual)) as table:
        (batch,) = labelled_rows(
            table, LabelledColumns(("text",), "label"), BadRows("in.parquet", "row", STOP)
        )
    assert batch["label"].to_pylist() == ["1", "0", None]
    assert batch["position"].to_pylist() == [1, 2, 3]
