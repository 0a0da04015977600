import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.cli.init.layout import Layout, recognise
from tuneline.cli.init.rows import NESTED, open_rows
from tuneline.errors import DataError


def opened(path):
    return open_rows(path, recognise(path))


def halves(path, folder):
    """Divides a file by turns and returns the two files' bytes."""
    file = opened(path)
    parts = ["test" if place % 2 else "train" for place, _ in enumerate(file.rows())]
    targets = {split: folder / f"{split}{file.layout.suffix}" for split in ("train", "test")}
    file.divide(parts, targets)
    return targets


def test_records_are_given_back_byte_by_byte(tmp_path):
    """Quotes, line ends inside cells and CRLF stay as a person's program wrote them."""
    path = tmp_path / "in.csv"
    path.write_bytes(b'text,label\r\n"a ""b""\nc",x\r\nplain,y\r\n  spaced ,x\r\n')
    targets = halves(path, tmp_path)
    assert targets["train"].read_bytes() == b'text,label\r\n"a ""b""\nc",x\r\n  spaced ,x\r\n'
    assert targets["test"].read_bytes() == b"text,label\r\nplain,y\r\n"


def test_a_last_line_without_its_end_gets_one(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"text,label\na b,x\nb c,y\nc d,x")
    assert halves(path, tmp_path)["train"].read_bytes() == b"text,label\na b,x\nc d,x\n"


def test_a_row_left_out_stands_in_no_file(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    opened(path).divide([None, "train"], {"train": tmp_path / "train.jsonl"})
    assert (tmp_path / "train.jsonl").read_text() == '{"text": "b"}\n'


def test_gzip_stays_gzip_and_has_no_clock_in_it(tmp_path):
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\na b,x\nb c,y\n"))
    once = halves(path, tmp_path)["train"].read_bytes()
    again = halves(path, tmp_path)["train"].read_bytes()
    assert gzip.decompress(once) == b"text,label\na b,x\n"
    assert once == again
    assert once[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_an_encoding_is_kept_and_a_byte_order_mark_is_no_part_of_a_name(tmp_path, encoding):
    path = tmp_path / "in.csv"
    path.write_bytes("text,label\ncafé,x\nthé,y\n".encode(encoding))
    assert opened(path).columns == ["text", "label"]
    train = halves(path, tmp_path)["train"].read_bytes()
    assert train.decode(encoding) == "text,label\ncafé,x\n"


def test_json_keys_are_gathered_from_all_lines(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "tags": ["x"]}\n\n{"label": 1, "text": "b"}\n')
    file = opened(path)
    assert file.columns == ["text", "tags", "label"]
    assert list(file.rows()) == [("a", NESTED, None), ("b", None, "1")]


@pytest.mark.parametrize(("line", "message"), [("{", "line 2: no JSON"), ("[1]", "line 2: no object")])
def test_a_broken_json_line_is_named(tmp_path, line, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        _ = opened(path).columns


def test_a_ragged_line_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('text,label\n"over\nlines",x\nonly one\n')
    with pytest.raises(DataError, match="line 4: 1 cells, but 2 columns"):
        list(open_rows(path, Layout("delimited", compressed=False)).rows())


def test_parquet_is_divided_with_its_schema(tmp_path):
    table = pa.table({"text": ["a", "b", "c"], "label": pa.array([0, 1, 0], pa.int8())}, metadata={"kept": "yes"})
    pq.write_table(table, tmp_path / "in.parquet")
    targets = halves(tmp_path / "in.parquet", tmp_path)
    train = pq.read_table(targets["train"])
    assert train.to_pydict() == {"text": ["a", "c"], "label": [0, 0]}
    assert train.schema.equals(table.schema, check_metadata=True)


def test_what_only_claims_to_be_parquet_is_refused(tmp_path):
    (tmp_path / "in.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match="is no Parquet file"):
        opened(tmp_path / "in.parquet")


@given(lines=st.lists(st.text(st.sampled_from('ab"\n\r,é'), max_size=10), min_size=1, max_size=10))
@settings(max_examples=60, deadline=None)
def test_raw_records_one_after_the_other_are_the_file(tmp_path_factory, lines):
    """Whatever stands in a file, dividing it loses no character."""
    content = "\n".join(lines) + "\n"
    path = tmp_path_factory.mktemp("raw") / "a.csv"
    path.write_bytes(content.encode())
    records = list(open_rows(path, Layout("delimited", compressed=False)).records())
    blank_free = [line for line in content.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line]
    kept = "".join(raw for raw, _, _ in records).replace("\r\n", "\n").replace("\r", "\n")
    assert [line for line in kept.split("\n") if line] == blank_free
