import csv
import gzip
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuneline.cli.init.layout import detect_layout
from tuneline.core.errors import DataError


def written(tmp_path, name, content, encoding="utf-8"):
    path = tmp_path / name
    data = content.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.csv.gz"])
def test_delimiter_is_detected_whatever_the_suffix(tmp_path, delimiter, name):
    rows = [["text", "label"], ["one, two; three", "x"], ["four | five", "y"], ["six", "x"]]
    rows = [[cell.replace(delimiter, " ") for cell in row] for row in rows]
    path = written(tmp_path, name, "".join(delimiter.join(row) + "\n" for row in rows))
    assert detect_layout(path).delimiter == delimiter


def test_literal_quotes_are_detected_in_a_tsv(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"Well , he said\tx\nshe called it " a witness "\ty\n" Fine "\tx\n"\ty\n')
    assert detect_layout(path).quoting == "literal"


def test_literal_quotes_are_detected_in_a_csv(tmp_path):
    path = written(tmp_path, "a.csv", 'text,label\n"Well he said,x\na 5" pipe,y\n"Yes" she said,x\n')
    assert detect_layout(path).quoting == "literal"


def test_quoted_cells_are_detected_in_a_tsv(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"with a\ttab"\tx\n"with ""quotes"""\ty\n"over\nlines"\tx\n')
    assert detect_layout(path).quoting == "standard"


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
        (",text,label\n0,fine day,a\n1,bad day,b\n", True),
        ("text,label\nfine day,a\ntext,label\nbad day,a\n", True),
        ("text,label\nfine day,a\n\ufefftext,label\nbad day,a\n", True),
        ("How would you describe it in your own words?,Kind\n" + "".join(f"day {n},{'ab'[n % 2]}\n" for n in range(40)), True),
        ("this is a sentence of many words,a\n" + "".join(f"day {n},{'ab'[n % 2]}\n" for n in range(40)), False),
    ],
)
def test_header_is_detected(tmp_path, content, header):
    assert detect_layout(written(tmp_path, "a.csv", content)).header is header


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encoding_is_detected(tmp_path, encoding):
    path = written(tmp_path, "a.csv", "text,label\nnaïve café,a\nüber,b\n", encoding)
    assert detect_layout(path).encoding == encoding


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
def test_unreadable_file_is_refused_with_a_hint(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        detect_layout(written(tmp_path, name, content))


def test_truncated_gzip_file_is_refused(tmp_path):
    path = written(tmp_path, "a.csv.gz", "text,label\n" + "fine,a\n" * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="the gzip file ends too early"):
        detect_layout(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.csv does not exist"):
        detect_layout(tmp_path / "a.csv")


CELLS = st.text(st.sampled_from('ab ,;|\t"\nß'), max_size=8)


@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=8, max_size=30), delimiter=st.sampled_from([",", ";", "\t"]))
@settings(max_examples=60, deadline=None)
def test_file_written_by_the_csv_module_is_read_back(tmp_path_factory, rows, delimiter):
    """With all cells quoted, the layout is unambiguous."""
    assume(all(any(cell for cell in row) for row in rows))
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    layout = detect_layout(path)
    with path.open(newline="") as file:
        assert [cells for cells in layout.reader(file) if cells] == rows
