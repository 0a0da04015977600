"""Labelled rows of a file: the same labels in every format and layout, and rows that cannot be used."""

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.params.data import LabelSetsParams
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks import Classification, Multilabel, Regression
from tuneline.rows.reading.formats import FORMAT_OF_SUFFIX
from tuneline.rows.reading.labelled import LabelledColumns, labelled_rows
from tuneline.rows.reading.rows import STOP, BadRowPolicy, BadRows
from tuneline.rows.reading.tables import open_table

SEPARATED = LabelSetsParams(layout="separated", separator=";")
LISTS = LabelSetsParams(layout="lists")
COLUMNS = LabelSetsParams(layout="columns", columns=["toxic", "obscene"])


def read(path, sets=None, policy=STOP, task=None, **columns):
    """Return the labels of a file with a column of texts, the positions of its rows, and its bad rows."""
    source = FORMAT_OF_SUFFIX[path.suffix].usual(path)
    bad = BadRows(path.name, source.unit, policy)
    if task is None:
        task = Multilabel(()) if sets else Classification(())
    read_columns = LabelledColumns(("text",), "tags", task, sets=sets, policy=policy, **columns)
    with open_table(source) as table:
        batches = list(labelled_rows(table, read_columns, bad))
    table = pa.Table.from_batches(batches, read_columns.schema)
    return table["label"].to_pylist(), table["position"].to_pylist(), bad


def write_json(folder, labels):
    rows = [{"text": f"text {number}", "tags": tags} for number, tags in enumerate(labels)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "in.jsonl"


def write_parquet(folder, labels, metadata=None):
    table = pa.table({"text": [f"text {number}" for number in range(len(labels))], "tags": labels})
    pq.write_table(table.replace_schema_metadata(metadata), folder / "in.parquet")
    return folder / "in.parquet"


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
    assert read(write_parquet(tmp_path, labels))[:2] == (["1", "0", None], [1, 2, 3])


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([["b", "a"], [], None, ["a", "a"]]),
        pa.array([["b", "a"], [], None, ["a"]], pa.large_list(pa.large_string())),
        pa.array(["['b', 'a']", "[]", None, '["a"]']),
    ],
    ids=lambda labels: str(labels.type),
)
def test_lists_of_parquet_are_sets(tmp_path, labels):
    assert read(write_parquet(tmp_path, labels), LISTS)[0] == [["a", "b"], [], None, ["a"]]


def test_lists_of_parquet_are_read_in_any_layout(tmp_path):
    """Flow ingest writes its batches so, whatever the layout of the user's files."""
    path = write_parquet(tmp_path, pa.array([["toxic"], []]))
    for sets in (SEPARATED, COLUMNS):
        assert read(path, sets)[0] == [["toxic"], []]


@pytest.mark.parametrize("kind", ["Sequence", "List"])
def test_ids_of_the_datasets_library_are_the_names_that_it_stored(tmp_path, kind):
    feature = {"feature": {"names": ["joy", "anger"], "_type": "ClassLabel"}, "_type": kind}
    metadata = {"huggingface": json.dumps({"info": {"features": {"tags": feature}}})}
    path = write_parquet(tmp_path, pa.array([[1, 0], [], [0], [-1]], pa.list_(pa.int64())), metadata)
    assert read(path, LISTS)[0] == [["anger", "joy"], [], ["joy"], None]


def test_null_is_missing_and_empty_is_a_label(tmp_path):
    for sets in (SEPARATED, LISTS):
        assert read(write_json(tmp_path, ["", None]), sets)[0] == [[], None]


def test_columns_of_labels_of_any_type_are_sets(tmp_path):
    for kind in (pa.int8(), pa.float32(), pa.bool_(), pa.string()):
        values = {"toxic": pa.array([1, None, 0, 1]), "obscene": pa.array([0, 1, 0, 1])}
        columns = {name: column.cast(kind) for name, column in values.items()}
        pq.write_table(pa.table({"text": list("abcd"), **columns}), tmp_path / "in.parquet")
        labels, _, _ = read(tmp_path / "in.parquet", COLUMNS)
        assert labels == [["toxic"], None, [], ["obscene", "toxic"]]


def test_bad_values_are_left_out_with_their_line_and_reason(tmp_path):
    path = write_json(tmp_path, [["a"], 7, ["b"], ["\ud800"]])
    with pytest.raises(DataError, match=r"in\.jsonl, line 2, column 'tags': .*not a list"):
        read(path, LISTS)
    labels, positions, bad = read(path, LISTS, BadRowPolicy(1.0))
    assert (labels, positions, bad.count) == ([["a"], ["b"]], [1, 3], 2)
    assert bad.problems[0].reason.startswith("column 'tags': the labels are a number")


def test_optional_columns_may_be_missing_and_others_are_text(tmp_path):
    (tmp_path / "in.csv").write_text("text,id\na,7.0\n")
    with pytest.raises(DataError, match=r"no column 'tags'"):
        read(tmp_path / "in.csv")
    assert read(tmp_path / "in.csv", others=["id", "by"], optional=["tags", "by"])[0] == [None]


def test_numbers_of_a_regression_are_read(tmp_path):
    assert read(write_json(tmp_path, ["1.5", 2, None]), task=Regression())[0] == [1.5, 2.0, None]
