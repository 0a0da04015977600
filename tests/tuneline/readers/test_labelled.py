"""Values of labelled rows: one name for one class, group or number, however a file writes it."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.readers.delimited import Dialect
from tuneline.readers.inputs import Input, open_table
from tuneline.readers.labelled import (
    LabelledColumns,
    ValueProblemError,
    class_name,
    label_number,
    labelled_rows,
    plain_text,
)
from tuneline.readers.rows import STOP, BadRows


@pytest.mark.parametrize(
    ("value", "name"),
    [("1.0", "1"), (1.0, "1"), (" -2.00 ", "-2"), ("1.5", "1.5"), ("007.0", "007.0"), (" ", None)],
)
def test_class_of_new_rows_is_named_as_download_names_it(value, name):
    assert class_name(value) == name


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7\t", Decimal("7.00")])
def test_group_is_the_same_however_it_is_written(value):
    assert plain_text(value) == "7"


@pytest.mark.parametrize("value", ["high", "1_000", "1,5", "\u0661", True, [1], "1e39", float("inf")])
def test_what_is_no_number_of_32_bits_is_refused(value):
    with pytest.raises(ValueProblemError):
        label_number(value)


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
    with open_table(Input(tmp_path / "in.parquet", "parquet", Dialect.default(tabs=False))) as table:
        (batch,) = labelled_rows(
            table, LabelledColumns(("text",), "label"), BadRows("in.parquet", "row", STOP)
        )
    assert batch["label"].to_pylist() == ["1", "0", None]
    assert batch["position"].to_pylist() == [1, 2, 3]
