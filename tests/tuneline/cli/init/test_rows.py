import csv
import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuneline.cli.init.layout import Layout, detect_layout
from tuneline.cli.init.rows import NESTED, open_rows
from tuneline.errors import DataError


def opened(path):
    return open_rows(path, detect_layout(path))


def halves(path, folder):
    """Divide a file alternately into train and test, and return the two files."""
    file = opened(path)
    parts = ["test" if row % 2 else "train" for row, _ in enumerate(file.rows())]
    targets = {split: folder / f"{split}{file.layout.suffix}" for split in ("train", "test")}
    file.divide(parts, targets)
    return targets


def test_division_keeps_the_bytes_of_each_record(tmp_path):
    """Quotes, line ends inside cells and CRLF stay as they are."""
    path = tmp_path / "in.csv"
    path.write_bytes(b'text,label\r\n"a ""b""\nc",x\r\nplain,y\r\n  spaced ,x\r\n')
    targets = halves(path, tmp_path)
    assert targets["train"].read_bytes() == b'text,label\r\n"a ""b""\nc",x\r\n  spaced ,x\r\n'
    assert targets["test"].read_bytes() == b"text,label\r\nplain,y\r\n"


def test_last_line_without_line_end_gets_one(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"text,label\na b,x\nb c,y\nc d,x")
    assert halves(path, tmp_path)["train"].read_bytes() == b"text,label\na b,x\nc d,x\n"


def test_row_that_is_left_out_is_in_no_file(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    opened(path).divide([None, "train"], {"train": tmp_path / "train.jsonl"})
    assert (tmp_path / "train.jsonl").read_text() == '{"text": "b"}\n'


def test_gzip_stays_gzip_without_a_time(tmp_path):
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\na b,x\nb c,y\n"))
    once = halves(path, tmp_path)["train"].read_bytes()
    again = halves(path, tmp_path)["train"].read_bytes()
    assert gzip.decompress(once) == b"text,label\na b,x\n"
    assert once == again
    assert once[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encoding_is_kept_and_a_byte_order_mark_is_not_part_of_a_name(tmp_path, encoding):
    path = tmp_path / "in.csv"
    path.write_bytes("text,label\ncafé,x\nthé,y\n".encode(encoding))
    assert opened(path).columns == ["text", "label"]
    train = halves(path, tmp_path)["train"].read_bytes()
    assert train.decode(encoding) == "text,label\ncafé,x\n"


def test_columns_are_the_keys_of_all_json_lines(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "tags": ["x"]}\n\n{"label": 1, "text": "b"}\n')
    file = opened(path)
    assert file.columns == ["text", "tags", "label"]
    assert list(file.rows()) == [("a", NESTED, None), ("b", None, "1")]


@pytest.mark.parametrize(("line", "message"), [("{", "line 2: not JSON"), ("[1]", "line 2: a list instead of a JSON object")])
def test_broken_json_line_is_named(tmp_path, line, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        _ = opened(path).columns


def test_ragged_row_is_named_by_its_line(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('text,label\n"over\nlines",x\nonly one\n')
    with pytest.raises(DataError, match="line 4: 1 column, but 2 in the header"):
        list(open_rows(path, Layout("delimited", compressed=False)).rows())


def test_parquet_is_divided_with_its_schema(tmp_path):
    table = pa.table({"text": ["a", "b", "c"], "label": pa.array([0, 1, 0], pa.int8())}, metadata={"kept": "yes"})
    pq.write_table(table, tmp_path / "in.parquet")
    targets = halves(tmp_path / "in.parquet", tmp_path)
    train = pq.read_table(targets["train"])
    assert train.to_pydict() == {"text": ["a", "c"], "label": [0, 0]}
    assert train.schema.equals(table.schema, check_metadata=True)


def test_file_that_is_not_parquet_is_refused(tmp_path):
    (tmp_path / "in.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match="not a Parquet file"):
        opened(tmp_path / "in.parquet")


def test_gzip_parquet_is_divided_into_plain_parquet(tmp_path):
    table = pa.table({"text": ["a", "b"]})
    pq.write_table(table, tmp_path / "plain")
    (tmp_path / "in.parquet.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    targets = halves(tmp_path / "in.parquet.gz", tmp_path)
    assert targets["test"].name == "test.parquet"
    assert pq.read_table(targets["test"]).to_pydict() == {"text": ["b"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'text,label\n"a"b,x\n', "line 2: text follows a closing quote"),
        (b'text,label\na,x\n"b,y\n', "line 3: a quote that opens in this row is never closed"),
        (b"text,label\na,x\ntext,label\n", "line 3: a second header line"),
    ],
)
def test_row_that_the_download_stage_would_refuse_is_refused(tmp_path, content, message):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(open_rows(tmp_path / "in.csv", Layout("delimited", compressed=False)).rows())


CELLS = st.text(st.sampled_from('ab"\n\r,é'), max_size=10)


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=10), line_end=st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=60, deadline=None)
def test_division_into_one_file_gives_the_same_bytes(tmp_path_factory, rows, line_end):
    folder = tmp_path_factory.mktemp("raw")
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    assume(("text", "label") not in rows)
    (folder / "a.csv").write_bytes(text.getvalue().encode())
    file = open_rows(folder / "a.csv", Layout("delimited", compressed=False))
    file.divide(["train" for _ in file.rows()], {"train": folder / "train.csv"})
    assert (folder / "train.csv").read_bytes() == text.getvalue().encode()
