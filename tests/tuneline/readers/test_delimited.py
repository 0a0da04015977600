import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.readers import delimited
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.rows import RowProblem
from tuneline.readers.text import Lines

CSV = Dialect(",", literal=False)


def lines_of(text):
    return Lines(io.StringIO(text, newline=""), "file", keep_raw=True)


def test_problem_is_yielded_with_its_line_and_reading_continues():
    reader = DelimitedReader(lines_of('id,text\n"1\n",a\nonly one\n2,"b"c\n3,d\n'), CSV)
    rows = list(reader)
    assert [line for line, _ in rows] == [2, 4, 5, 6]
    problems = [row.message for _, row in rows if isinstance(row, RowProblem)]
    assert problems == [
        "1 column, but 2 in the header",
        "text follows a closing quote",
    ]
    assert rows[-1] == (6, ["3", "d"])


def test_quote_that_is_never_closed_does_not_swallow_the_file(monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_FIELD", 100)
    rows = list(DelimitedReader(lines_of('id,text\n1,a\n2,"open\n' + "3,b\n" * 200), CSV))
    assert isinstance(rows[1][1], RowProblem)
    assert sum(isinstance(fields, list) for _, fields in rows) > 100


@pytest.mark.parametrize(("content", "byte"), [(b"id,text\n1,a\n2,\xe9\n3,c\n", "0xe9")])
def test_bytes_of_another_encoding_are_the_problem_of_their_row(content, byte):
    lines = lines_of(content.decode(errors="surrogateescape"))
    (_, one), (_, two), (_, three) = DelimitedReader(lines, CSV)
    assert (one, three) == (["1", "a"], ["3", "c"])
    assert (two.line, two.message) == (3, f"not utf-8: byte {byte}")


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_content_gives_rows_or_problems(content):
    assert all(isinstance(fields, list | RowProblem) for _, fields in DelimitedReader(lines_of("id,text\n" + content), CSV))
