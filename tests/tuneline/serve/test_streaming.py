"""Rows of files of any format, as they are predicted."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.rows.reading.formats import FORMATS
from tuneline.rows.reading.rows import PRINTED_BAD_ROWS, BadRowPolicy, BadRows
from tuneline.rows.reading.tables import open_table
from tuneline.serve.columns import InputColumns, Row
from tuneline.serve.streaming import good_rows

COLUMNS = InputColumns(("text",), ("id",))


@pytest.fixture
def bad():
    return BadRows("in.csv", "line", BadRowPolicy(1.0), printed=True)


def read(path, bad):
    with open_table(FORMATS[path.suffix[1:]].usual(path)) as table:
        return list(good_rows(table, COLUMNS, bad))


def test_skipped_rows_are_counted_and_the_first_ones_printed(tmp_path, capsys, bad):
    (tmp_path / "in.csv").write_text("id,text\n" + "1,a\n2\n" * 50)
    rows = read(tmp_path / "in.csv", bad)
    assert [row.number for row in rows] == list(range(1, 101, 2))
    assert bad.count == 50
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == PRINTED_BAD_ROWS
    assert lines[0] == "skipped line 3: 1 column, but 2 in the header"


def test_rows_are_numbered_without_header_and_empty_lines(tmp_path, bad):
    (tmp_path / "in.csv").write_text("id,text\n\n1,a\n\n2\n3,b\n")
    assert read(tmp_path / "in.csv", bad) == [Row(1, ("a",), ("1",)), Row(3, ("b",), ("3",))]
    assert [(problem.line, problem.message) for problem in bad.problems] == [
        (5, "1 column, but 2 in the header")
    ]


def test_parquet_rows_without_text_are_bad(tmp_path, bad):
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", None]}), tmp_path / "in.parquet")
    assert read(tmp_path / "in.parquet", bad) == [Row(1, ("a",), (1,))]
    assert [(problem.line, problem.message) for problem in bad.problems] == [
        (2, "column 'text' is null, not text")
    ]
