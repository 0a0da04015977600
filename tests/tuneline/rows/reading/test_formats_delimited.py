"""CSV and TSV files: rows, and rows that cannot be read, with their lines."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuneline.rows.reading.rows_of_files import problems, read
from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading import formats
from tuneline.rows.reading.rows import RowProblem

BAD = {
    "too short": ("id,text\n1,a\nonly one\n2,b\n", [(3, "1 column, but 2 in the header")]),
    "too long, after a row of two lines": (
        'id,text\n"1\n",a\n1,2,3\n2,b\n',
        [(4, "3 columns, but 2 in the header")],
    ),
    "text behind a quote": ('id,text\n1,a\n2,"b"c\n', [(3, "text follows a closing quote")]),
    "a backslash": (
        'id,text\n1,"a \\"b\\" c"\n',
        [(2, "text follows a closing quote")],
    ),
    "an open quote": ('id,text\n1,a\n2,"open\n', [(3, "a quote that opens in this row is never closed")]),
    "another encoding": (b"id,text\n1,a\n2,\xe9\n3,c\n", [(3, "not utf-8: byte 0xe9")]),
    "a zero byte": ("id,text\n" + "1,a\n" * 99 + "2,b\0\n", [(101, "a zero byte")]),
    "a second header": ("id,text\n1,a\nID,Text\n2,b\n", [(3, "a header line instead of a row")]),
    "another file without header": (
        "id,text\n1,a\n\ufeff2,b\n",
        [(3, "a byte order mark in front of the row")],
    ),
}


@pytest.mark.parametrize(("content", "expected"), BAD.values(), ids=BAD)
def test_row_that_cannot_be_read_has_its_line_and_reading_continues(tmp_path, content, expected):
    _, rows = read(tmp_path / "a.csv", content)
    assert problems(rows) == expected
    assert all(row.hint for _, row in rows if isinstance(row, RowProblem))
    readable = [row for _, row in rows if not isinstance(row, RowProblem)]
    assert len(readable) + len(expected) == len(rows)


def test_quote_that_is_never_closed_does_not_swallow_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LONGEST_CELL", 100)
    _, rows = read(tmp_path / "a.csv", 'id,text\n1,a\n2,"open\n' + "3,b\n" * 200)
    ((line, message),) = problems(rows)
    assert (line, message[:31]) == (3, "a quote that is never closed, o")
    assert len(rows) > 100


def test_row_that_swallows_others_counts_for_all(tmp_path):
    _, rows = read(tmp_path / "a.csv", 'id,text\n1,"open\n2,b\n3,c\n4,"d"\n5,e\n')
    assert rows[0][1].lines == 4
    assert rows[1] == (6, ["5", "e"])


def test_rows_that_begin_like_the_header_are_rows(tmp_path):
    _, rows = read(tmp_path / "a.csv", "id,text\nid 7,text\nidea,a\n\n,text\n")
    assert rows == [(2, ["id 7", "text"]), (3, ["idea", "a"]), (5, ["", "text"])]


def test_quotes_and_escapes_are_read_as_the_layout_says(tmp_path):
    assert read(tmp_path / "a.tsv", 'id\ttext\n1\t"a\n')[1] == [(2, ["1", '"a'])]
    assert read(tmp_path / "a.csv", 'id,text\n1,"a \\"b\\""\n', escape="\\")[1] == [(2, ["1", 'a "b"'])]
    assert read(tmp_path / "a.csv", "sep=,\nid,text\n1,a\n")[1] == [(3, ["1", "a"])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("id,text,id\n", "a column twice"),
        (b"id,\xe9\n", "line 1, in the header: not utf-8"),
    ],
)
def test_header_that_cannot_be_read_is_refused(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.csv", content)


def test_column_without_a_name_is_numbered(tmp_path):
    assert read(tmp_path / "a.csv", ",text\n")[0] == ["column_1", "text"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300))
def test_any_content_gives_rows_or_problems(tmp_path, content):
    _, rows = read(tmp_path / "a.csv", "id,text\n" + "1,a\n" * 50 + content)
    assert all(isinstance(fields, list | RowProblem) for _, fields in rows)
