import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.cli.init.rows import read_file
from tuneline.columns.profiles import NESTED
from tuneline.readers.delimited import CSV
from tuneline.readers.rows import STOP
from tuneline.readers.tables import Input
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import sniff


def opened(path):
    return read_file(sniff(path).settled({"text"}), STOP)


def rows_of(file):
    return list(zip(*(column.cells for column in file.columns.values()), strict=True))


def as_csv(path):
    """Open a file without detection."""
    return read_file(Input(path, CSV.usual), STOP)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_rows_are_decoded_and_a_byte_order_mark_is_not_part_of_a_name(tmp_path, encoding):
    path = tmp_path / "in.csv"
    path.write_bytes("text,label\ncafé,x\nthé,y\n".encode(encoding))
    assert list(opened(path).columns) == ["text", "label"]
    assert rows_of(opened(path)) == [("café", "x"), ("thé", "y")]


def test_numbers_are_written_as_the_download_stage_writes_classes(tmp_path):
    pq.write_table(
        pa.table({"text": ["a", "b", "c"], "label": [1.0, float("nan"), 0.5]}), tmp_path / "in.parquet"
    )
    assert rows_of(opened(tmp_path / "in.parquet")) == [("a", "1"), ("b", None), ("c", "0.5")]


def test_columns_are_the_keys_of_all_json_lines(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "tags": ["x"]}\n\n{"label": 1, "text": "b"}\n')
    file = opened(path)
    assert list(file.columns) == ["text", "tags", "label"]
    assert rows_of(file) == [("a", f'{NESTED}["x"]', None), ("b", None, "1")]


@pytest.mark.parametrize(
    ("line", "message"), [("{", "line 2: not JSON"), ("[1]", "line 2: a list instead of a JSON object")]
)
def test_broken_json_line_is_named(tmp_path, line, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        _ = opened(path).columns


def test_ragged_row_is_named_by_its_line(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('text,label\n"over\nlines",x\nonly one\n')
    with pytest.raises(DataError, match="line 4: 1 column"):
        as_csv(path)


def test_file_that_is_not_parquet_is_refused(tmp_path):
    (tmp_path / "in.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match="not a Parquet file"):
        opened(tmp_path / "in.parquet")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'text,label\n"a"b,x\n', "line 2: text follows a closing quote"),
        (b'text,label\na,x\n"b,y\n', "line 3: a quote that opens in this row is never closed"),
        (b"text,label\na,x\ntext,label\n", "line 3: a header line instead of a row"),
    ],
)
def test_row_that_the_download_stage_would_refuse_is_refused(tmp_path, content, message):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        as_csv(tmp_path / "in.csv")


def test_lists_of_lists_and_objects_in_parquet_are_neither_text_nor_label(tmp_path):
    pq.write_table(
        pa.table({"tags": [[["a"]], None], "text": ["x", "y"], "more": [{"a": 1}, {"a": 2}]}),
        tmp_path / "in.parquet",
    )
    assert rows_of(opened(tmp_path / "in.parquet")) == [
        (f'{NESTED}[["a"]]', "x", NESTED),
        (None, "y", NESTED),
    ]


def test_column_that_occurs_twice_in_parquet_is_refused(tmp_path):
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), tmp_path / "in.parquet")
    with pytest.raises(DataError, match="'text' occurs 2"):
        opened(tmp_path / "in.parquet")
