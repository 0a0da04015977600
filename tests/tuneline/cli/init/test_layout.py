import csv
import gzip
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuneline.cli.init.layout import recognise
from tuneline.errors import DataError


def written(tmp_path, name, content, encoding="utf-8"):
    path = tmp_path / name
    data = content.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.csv.gz"])
def test_the_delimiter_is_found_whatever_the_file_is_called(tmp_path, delimiter, name):
    rows = [["text", "label"], ["one, two; three", "x"], ["four | five", "y"], ["six", "x"]]
    rows = [[cell.replace(delimiter, " ") for cell in row] for row in rows]
    path = written(tmp_path, name, "".join(delimiter.join(row) + "\n" for row in rows))
    assert recognise(path).delimiter == delimiter


def test_quotes_that_are_characters_are_not_taken_for_quoting(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"Well , he said\tx\nshe called it " a witness "\ty\n" Fine "\tx\n"\ty\n')
    assert recognise(path).quoting == "literal"


def test_literal_quotes_are_found_in_a_csv_too(tmp_path):
    path = written(tmp_path, "a.csv", 'text,label\n"Well he said,x\na 5" pipe,y\n"Yes" she said,x\n')
    assert recognise(path).quoting == "literal"


def test_quoted_cells_are_found_in_a_tsv_too(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"with a\ttab"\tx\n"with ""quotes"""\ty\n"over\nlines"\tx\n')
    assert recognise(path).quoting == "standard"


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("text,label\nfine day,a\nbad day,b\n", True),
        ("sentence1,sentence2,score\na b,c d,1.5\nb c,d e,2.5\n", True),
        ("fine day,a\nbad day,b\nother day,a\n", False),
        ("some text,1.5\nother text,2.5\n", False),
        ("this is a sentence of many words,x\nother,y\nthird,x\n", False),
        ("text,text\nfine day,a\n", False),
        (",label\nfine day,a\n", False),
    ],
)
def test_a_header_is_told_from_a_row(tmp_path, content, header):
    assert recognise(written(tmp_path, "a.csv", content)).header is header


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_encoding_is_found(tmp_path, encoding):
    path = written(tmp_path, "a.csv", "text,label\nnaïve café,a\nüber,b\n", encoding)
    assert recognise(path).encoding == encoding


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[]", "jq"),
        ("a.xlsx", "x", "Save the sheet as CSV"),
        ("a", "x", "Known: .csv"),
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "is empty"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_way_out(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        recognise(written(tmp_path, name, content))


def test_a_truncated_archive_is_refused(tmp_path):
    path = written(tmp_path, "a.csv.gz", "text,label\n" + "fine,a\n" * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="Copy it again"):
        recognise(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.csv is not there"):
        recognise(tmp_path / "a.csv")


CELLS = st.text(st.sampled_from('ab ,;|\t"\nß'), max_size=8)


@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=8, max_size=30), delimiter=st.sampled_from([",", ";", "\t"]))
@settings(max_examples=60, deadline=None)
def test_a_file_written_by_the_csv_module_is_read_back_the_same(tmp_path_factory, rows, delimiter):
    """Quoting everything is what spreadsheets do when there is doubt; every cell then says what it is."""
    assume(all(any(cell for cell in row) for row in rows))
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    layout = recognise(path)
    with path.open(newline="") as file:
        assert [cells for cells in layout.reader(file) if cells] == rows
