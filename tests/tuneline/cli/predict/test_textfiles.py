import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.cli.predict import textfiles
from tuneline.cli.predict.rows import BadRow, Row, Wanted
from tuneline.cli.predict.textfiles import Dialect, read_delimited, read_jsonl

WANTED = Wanted(("text",), ("id",))
CSV = Dialect(",", literal=False)
ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(ANYTHING, min_size=1, max_size=20))
def test_whatever_csv_can_write_is_read_back(texts):
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerows([("id", "text"), *enumerate(texts)])
    rows = list(read_delimited(io.StringIO(file.getvalue(), newline=""), "file", CSV, WANTED))
    assert rows == [Row(number + 1, (text,), {"id": str(number)}) for number, text in enumerate(texts)]


@given(st.lists(ANYTHING, max_size=20))
def test_whatever_json_can_write_is_read_back(texts):
    content = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    rows = list(read_jsonl(io.StringIO(content), WANTED))
    assert rows == [Row(number + 1, (text,), {"id": number}) for number, text in enumerate(texts)]


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_no_content_breaks_the_reader(content):
    """Rows are good or bad; the reader goes on to the end."""
    for row in read_delimited(io.StringIO("id,text\n" + content, newline=""), "file", CSV, WANTED):
        assert isinstance(row, Row | BadRow)
    assert all(isinstance(row, Row | BadRow) for row in read_jsonl(io.StringIO(content), WANTED))


def test_a_quote_that_is_never_closed_costs_its_row_and_not_the_memory(monkeypatch):
    monkeypatch.setattr(textfiles, "LONGEST_FIELD", 100)
    content = 'id,text\n1,a\n2,"open\n' + "3,b\n" * 200
    rows = list(read_delimited(io.StringIO(content, newline=""), "file", CSV, WANTED))
    assert rows[0] == Row(1, ("a",), {"id": "1"})
    assert isinstance(rows[1], BadRow)
    assert "field limit" in rows[1].reason
    assert len([row for row in rows if isinstance(row, Row)]) > 100, "after it, reading goes on"


@pytest.mark.parametrize("reader", ["csv", "jsonl"])
def test_a_line_without_an_end_is_not_read_into_memory_whole(monkeypatch, reader):
    monkeypatch.setattr(textfiles, "LONGEST_LINE", 50)
    asked = []

    class Endless(io.StringIO):
        def readline(self, size=-1):
            asked.append(size)
            return super().readline(size)

    text = Endless("id,text\n" * (reader == "csv") + "x" * 10_000)
    rows = list(read_delimited(text, "file", CSV, WANTED) if reader == "csv" else read_jsonl(text, WANTED))
    assert [type(row) for row in rows] == [BadRow]
    assert set(asked) == {50}


def test_empty_lines_are_no_rows():
    rows = list(read_delimited(io.StringIO("id,text\n\n1,a\n\n\n2,b\n", newline=""), "file", CSV, WANTED))
    assert [(row.number, row.texts) for row in rows] == [(1, ("a",)), (2, ("b",))]


def test_a_literal_quote_is_a_character():
    dialect = Dialect("\t", literal=True)
    (row,) = read_delimited(io.StringIO('id\ttext\n1\t"a" and "b\n', newline=""), "file", dialect, WANTED)
    assert row.texts == ('"a" and "b',)
