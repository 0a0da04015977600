import csv
import gzip
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conftest import SHARED
from tuneline.core.runtime.errors import DataError
from tuneline.operations.adoption.rows import read_file
from tuneline.rows.proposals.files import UnclearHeaderError, sniff
from tuneline.rows.reading.formats import split_records
from tuneline.rows.reading.rows import STOP


def written(tmp_path, name, content, encoding="utf-8"):
    path = tmp_path / name
    data = content.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def layout_of(path):
    return sniff(path, header=True)


def opened(path):
    """Return a file with a header as it is detected."""
    return read_file(layout_of(path), STOP)


def rows_of(path):
    return cells_of(opened(path))


def cells_of(file):
    return list(zip(*(column.cells for column in file.columns.values()), strict=True))


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_delimiter_is_detected_whatever_the_suffix(tmp_path, delimiter, name):
    rows = [["text", "label"], ["one, two; three", "x"], ["four | five", "y"], ["six", "x"]]
    rows = [[cell.replace(delimiter, " ") for cell in row] for row in rows]
    path = written(tmp_path, name, "".join(delimiter.join(row) + "\n" for row in rows))
    assert layout_of(path).delimiter == delimiter


def test_literal_quotes_are_detected_in_a_tsv(tmp_path):
    path = written(
        tmp_path,
        "a.tsv",
        'text\tlabel\n"Well , he said\tx\nshe called it " a witness "\ty\n" Fine "\tx\n"\ty\n',
    )
    assert layout_of(path).quoting == "literal"


def test_literal_quotes_are_detected_in_a_csv(tmp_path):
    path = written(tmp_path, "a.csv", 'text,label\n"Well he said,x\na 5" pipe,y\n"Yes" she said,x\n')
    assert layout_of(path).quoting == "literal"


def test_quoted_cells_are_detected_in_a_tsv(tmp_path):
    path = written(
        tmp_path, "a.tsv", 'text\tlabel\n"with a\ttab"\tx\n"with ""quotes"""\ty\n"over\nlines"\tx\n'
    )
    assert layout_of(path).quoting == "standard"


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("text,label\nfine day,a\nbad day,b\n", True),
        ("sentence1,sentence2,score\na b,c d,1.5\nb c,d e,2.5\n", True),
        ("fine day,a\nbad day,b\nother day,a\n", False),
        ("some text,1.5\nother text,2.5\n", False),
        ("this is a sentence of many words,x\nother,y\nthird,x\n", False),
        ("text,text\nfine day,a\n", True),
        (",label\nfine day,a\n", True),
        (",text,label\n0,fine day,a\n1,bad day,b\n", True),
        ("text,label\nfine day,a\ntext,label\nbad day,a\n", True),
        ("text,label\nfine day,a\n\ufefftext,label\nbad day,a\n", True),
        (
            "this is a sentence of many words,a\n" + "".join(f"day {n},{'ab'[n % 2]}\n" for n in range(40)),
            False,
        ),
    ],
)
def test_header_is_detected(tmp_path, content, header):
    assert (sniff(written(tmp_path, "a.csv", content)).columns is None) is header


UNCLEAR_HEADERS = {
    "a question above": ("How would you describe it in your own words?,Kind\n", "day {0},{1}\n"),
    "the first of distinct short texts": ("first day,sunny morning\n", "day {0},hour {0}\n"),
    "one column": ("first day\n", "day {0}\n"),
    "a word above numbers, and a class": ("price,a\n", "{0}.5,{1}\n"),
}


@pytest.mark.parametrize(("first", "row"), UNCLEAR_HEADERS.values(), ids=UNCLEAR_HEADERS)
def test_first_line_that_can_be_both_is_asked_about(tmp_path, first, row):
    rows = "".join(row.format(number, "ab"[number % 2]) for number in range(40))
    with pytest.raises(UnclearHeaderError) as asked:
        sniff(written(tmp_path, "a.csv", first + rows))
    assert "--no-header" in asked.value.hint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", "x", "a file that ends in .csv"),
        ("a.csv", "", "is empty"),
    ],
)
def test_unreadable_file_is_refused_with_a_hint(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        rows_of(written(tmp_path, name, content))


@pytest.mark.parametrize(("text", "encoding"), [("شكرا جزيلا", "cp1256"), ("תודה רבה", "cp1255")])
def test_encoding_that_bytes_do_not_tell_is_among_the_named_ones(tmp_path, text, encoding):
    path = written(tmp_path, "a.csv", f"text,label\n{text},a\n" * 20, encoding)
    with pytest.raises(DataError, match="do not tell its encoding") as refused:
        sniff(path)
    assert encoding in refused.value.hint


CELLS = st.text(st.sampled_from('ab ,;|\t"\nß'), max_size=8)


@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=8, max_size=30),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
@settings(max_examples=60)
def test_file_written_by_the_csv_module_is_read_back(tmp_path_factory, rows, delimiter):
    """With all cells quoted, the layout is unambiguous."""
    assume(all(any(cell for cell in row) for row in rows))
    assume(all(cell.strip() for cell in rows[0]))  # a row with one cell above others would be a title
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    layout = layout_of(path)
    with path.open(newline="") as file:
        assert [cells for cells in split_records(layout, file) if cells] == rows


TICKETS = [
    (f"the parcel never came {number}, or too late", ("delivery", "billing", "access")[number % 3])
    for number in range(60)
]


def table(rows=TICKETS, header="text;label", delimiter=";"):
    lines = [] if header is None else [header]
    return "\n".join([*lines, *(delimiter.join(row) for row in rows)]) + "\n"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (table([*TICKETS, ("text", "access")]), ["text", "label"]),  # a cell that repeats its header
        (
            table([(*row, "", "") for row in TICKETS], "text;label;;"),
            ["text", "label", "column_3", "column_4"],
        ),
        (table(header="0;1"), ["0", "1"]),  # pandas, of a list of rows
        (
            table([(*row, str(number)) for number, row in enumerate(TICKETS)], "text;label;2024"),
            ["text", "label", "2024"],
        ),
        (table(header="Beschreibung des Problems;Abteilung"), ["Beschreibung des Problems", "Abteilung"]),
        ("sep=;\n" + table(), ["text", "label"]),
        (table(header=None), ["column_1", "column_2"]),
        ("sep=;\n" + table(header=None), ["column_1", "column_2"]),
    ],
)
def test_columns_have_the_names_in_the_file(tmp_path, content, columns):
    path = written(tmp_path, "a.csv", content)
    file = read_file(sniff(path), STOP)
    assert list(file.columns) == columns
    assert len(cells_of(file)) >= len(TICKETS)


def test_decimal_commas_below_a_header_with_semicolons_are_no_delimiter(tmp_path):
    rows = [(f"late parcel {row}", f"{row},50") for row in range(400)]
    assert layout_of(written(tmp_path, "a.csv", table(rows))).delimiter == ";"


@pytest.mark.parametrize(
    "content",
    [
        "Export of all tickets\n\n" + table(),
        "Export of all tickets;;\nMay 2026;;\n" + table([(*row, "x") for row in TICKETS], "text;label;by"),
    ],
)
def test_title_above_a_table_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="the first line is a title") as refused:
        sniff(written(tmp_path, "a.csv", content))
    assert "'Export of all tickets'" in refused.value.hint


def test_header_above_texts_with_delimiters_is_no_title(tmp_path):
    """Then the rows are refused, because they have more cells than names, and their texts are not divided."""
    content = "text,label\n" + "".join(f"{text}, as ever, {label}\n" for text, label in TICKETS)
    path = written(tmp_path, "a.csv", content)
    with pytest.raises(DataError, match="2 in the header"):
        rows_of(path)


@pytest.mark.parametrize(
    ("rows", "cell"),
    [
        (['they said ""late"", twice', "fine"], 'they said "late", twice'),
        (['they said \\"late\\", twice', "fine"], 'they said "late", twice'),
        (['a backslash \\\\ and \\"late\\"', "fine"], 'a backslash \\ and "late"'),
    ],
)
def test_quotes_inside_quoted_cells_are_read(tmp_path, rows, cell):
    content = "text,label\n" + "".join(
        f'"{row}","{"ab"[number % 2]}"\n' for number, row in enumerate(rows * 20)
    )
    path = written(tmp_path, "a.csv", content)
    assert rows_of(path)[0] == (cell, "a")


def test_apostrophes_enclose_cells(tmp_path):
    """Those of words and of a text that begins with one do not."""
    content = "text;label\n" + "'he said; \"no\"';a\n'it isn''t';b\nisn't it;a\n" * 10
    path = written(tmp_path, "a.csv", content)
    assert [row[0] for row in rows_of(path)][:3] == [
        'he said; "no"',
        "it isn't",
        "isn't it",
    ]
    path = written(tmp_path, "b.csv", "text;label\n" + "'tis the season;a\nrock 'n' roll;b\n" * 10)
    assert rows_of(path)[0] == ("'tis the season", "a")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["sentence\n", ""])
def test_column_of_quoted_texts_with_a_delimiter_each_is_one_column(tmp_path, delimiter, header):
    lines = [f'"dull {delimiter} lifeless ""{row}"""\n' for row in range(40)]
    path = written(tmp_path, "a.csv", header + "".join([*lines, '"over\nlines"\n', "plain\n"]))
    rows = cells_of(read_file(sniff(path, header=bool(header)), STOP))
    assert rows[:2] == [(f'dull {delimiter} lifeless "{row}"',) for row in range(2)]


def test_one_broken_row_does_not_make_all_quotes_literal(tmp_path):
    path = written(
        tmp_path, "a.csv", "text,label\n" + '"fine","a"\n' * 40 + '"x"y,"b"\n' + '"fine","b"\n' * 40
    )
    assert layout_of(path).quoting == "standard"


ARRAY = '[{"text": "x", "label": "a"}, {"text": "y", "label": "b"}]'


@pytest.mark.parametrize("content", [ARRAY, "\n" + ARRAY.replace(",", ",\n ").replace("[", "[\n") + "\n"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_array_of_objects_is_read(tmp_path, name, content):
    path = written(tmp_path, name, content)
    assert rows_of(path) == [("x", "a"), ("y", "b")]


def test_quotes_with_line_ends_far_into_a_file_are_no_literal_ones(tmp_path):
    """The end of the sample cuts a record, which says nothing about the quotes."""
    rows = [f"plain {row},a\n" for row in range(30_000)] + [
        f'"a, ""b""\nc {row}",b\n' for row in range(30_000)
    ]
    assert layout_of(written(tmp_path, "a.csv", "text,label\n" + "".join(rows))).quoting == "standard"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "pointer of Git LFS"),
        (b"\xef\xbb\xbf\n <!DOCTYPE html><html>", "web page"),
        (b"#FORMAT=WebAnno TSV 3.2\n\n\n#Text=a b\n1-1\t0-1\ta\tO\t\n", "token classification"),
        (b"PK\x03\x04\x14\x00\x06\x00", "ZIP archive or a spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "spreadsheet of Excel 97"),
        (b"SQLite format 3\x00", "database"),
    ],
)
def test_file_without_rows_is_called_by_its_name(tmp_path, content, name):
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(DataError, match=name) as refused:
        sniff(tmp_path / "train.csv")
    assert refused.value.hint


ROWS_OF_CASES = {
    "header_word": 181,
    "blank_header_names": 60,
    "excel_trailing": 180,
    "sep_line": 180,
    "apostrophe_quotes": 12,
    "backslash_quotes": 180,
    "one_quoted_column": 2,
}


@pytest.mark.parametrize(("case", "rows"), ROWS_OF_CASES.items())
def test_real_dirt_is_read(case, rows):
    """Files made after public bug reports."""
    path = SHARED / f"data/cases/{case}.csv"
    if not path.exists():
        pytest.skip("the folder shared/ is not beside this checkout")
    assert len(cells_of(read_file(sniff(path), STOP))) == rows
