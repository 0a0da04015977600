"""Rows to predict, of files of any format."""

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.readers.formats import FORMATS
from tuneline.readers.inputs import InputColumns, Row, open_rows
from tuneline.readers.tables import Input

COLUMNS = InputColumns(("text",), ("id",))


def read(path, content, columns=COLUMNS):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with open_rows(Input(path, FORMATS[path.suffix[1:]].usual), columns) as source:
        return list(source.rows)


def contents(rows):
    """Return what the rows hold; of a row that cannot be predicted, its number and problem."""
    return [
        (row.texts[0], row.kept) if isinstance(row, Row) else (row.number, row.problem.message)
        for row in rows
    ]


def test_rows_are_numbered_without_header_and_empty_lines(tmp_path):
    rows = read(tmp_path / "in.csv", "id,text\n\n1,a\n\n2\n3,b\n")
    assert contents(rows) == [("a", {"id": "1"}), (2, "1 column, but 2 in the header"), ("b", {"id": "3"})]
    assert rows[1].problem.line == 5


def test_parquet_rows_and_their_number_are_read(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", None]}), tmp_path / "in.parquet")
    with open_rows(Input(tmp_path / "in.parquet", FORMATS["parquet"].usual), COLUMNS) as source:
        good, bad = source.rows
    assert (source.total, source.unit) == (2, "row")
    assert good == Row(1, ("a",), {"id": 1})
    assert bad.problem.message == "column 'text' is null, not text"
