import csv
import gzip
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneline.readers import text
from tuneline.readers.formats import FORMATS
from tuneline.readers.inputs import BadRow, InputColumns, Row, open_rows
from tuneline.readers.rows import DEFAULT_LIMITS, MB, Limits
from tuneline.readers.tables import Input
from tuneline.runtime.errors import DataError

COLUMNS = InputColumns(("text",), ("id",))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
many_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def parquet(texts):
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), sink, use_dictionary=False)
    return sink.getvalue()


def read(path, content, columns=COLUMNS, names=None, limits=DEFAULT_LIMITS):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    kind = path.suffix[1:]
    layout = FORMATS[kind].usual.told({"columns": names})
    with open_rows(Input(path, layout, limits), columns) as source:
        return list(source.rows)


def contents(rows):
    """Return what the rows hold; of a row that cannot be predicted, its number and problem."""
    return [
        (row.texts[0], row.kept) if isinstance(row, Row) else (row.number, row.problem.message)
        for row in rows
    ]


def expected(texts, key):
    blank = "column 'text': no text, or only white space"
    return [
        (text, {"id": key(number)}) if text.strip() else (number + 1, blank)
        for number, text in enumerate(texts)
    ]


@many_files
@given(texts=st.lists(TEXTS, min_size=1, max_size=20))
def test_any_texts_that_csv_can_hold_are_read_back(tmp_path, texts):
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    rows = read(tmp_path / "in.csv", file.getvalue())
    assert contents(rows) == expected(texts, str)


@many_files
@given(texts=st.lists(TEXTS, max_size=20))
def test_any_texts_that_json_can_hold_are_read_back(tmp_path, texts):
    content = "".join(json.dumps({"id": number, "text": one}) + "\n" for number, one in enumerate(texts))
    rows = read(tmp_path / "in.jsonl", content)
    assert contents(rows) == expected(texts, int)


@many_files
@given(content=st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_content_gives_good_or_bad_rows(tmp_path, content):
    assert all(isinstance(row, Row | BadRow) for row in read(tmp_path / "in.csv", "id,text\n" + content))
    assert all(isinstance(row, Row | BadRow) for row in read(tmp_path / "in.jsonl", content))


def test_unclosed_quote_costs_only_its_row(tmp_path):
    rows = read(tmp_path / "in.csv", 'id,text\n1,a\n2,"open\n' + "3,b\n" * 200, limits=Limits(cell=100))
    assert rows[0] == Row(1, ("a",), {"id": "1"})
    assert isinstance(rows[1], BadRow)
    message = (
        "a quote that opens in this row is never closed, or a field has more than 100 characters"
        " (--max-cell-characters)"
    )
    assert rows[1].problem.message == message
    assert len([row for row in rows if isinstance(row, Row)]) > 100


@pytest.mark.parametrize(("kind", "start"), [("csv", "id,text\n"), ("jsonl", "")])
def test_endless_line_is_a_bad_row(tmp_path, monkeypatch, kind, start):
    monkeypatch.setattr(text, "LONGEST_LINE", 50)
    (row,) = read(tmp_path / f"in.{kind}", start + "x" * 10_000)
    assert row.problem.message == "longer than 50 characters"


def test_empty_lines_are_not_counted_as_rows(tmp_path):
    rows = read(tmp_path / "in.csv", "id,text\n\n1,a\n\n\n2,b\n")
    assert [(row.number, row.texts) for row in rows] == [(1, ("a",)), (2, ("b",))]


def test_literal_quote_is_part_of_the_text(tmp_path):
    (row,) = read(tmp_path / "in.tsv", 'id\ttext\n1\t"a" and "b\n')
    assert row.texts == ('"a" and "b',)


def test_row_equal_to_the_header_is_a_row(tmp_path):
    rows = read(tmp_path / "in.csv", "id,text\n1,a\nid,text\n")
    assert [row.texts for row in rows] == [("a",), ("text",)]


def test_columns_option_makes_the_first_line_a_row(tmp_path):
    (row,) = read(tmp_path / "in.csv", "id,text\n", names=["id", "text"])
    assert row.texts == ("text",)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("csv", b"id,text,other\n1,a,\xe9\n\xe9,b,\n3,\xe9,\n4,d,\n"),
        (
            "jsonl",
            b'{"id":1,"text":"a","other":"\xe9"}\n{"id":"\xe9","text":"b"}\n{"id":3,"text":"\xe9"}\n{"id":4,"text":"d"}\n',
        ),
    ],
)
def test_bad_byte_makes_a_row_bad_only_in_a_column_that_is_used(tmp_path, kind, content):
    first, kept, texts, last = read(tmp_path / f"in.{kind}", content)
    assert (first.texts, last.texts) == (("a",), ("d",))
    assert kept.problem.message == texts.problem.message == "not utf-8: byte 0xe9"
    assert "--encoding" in texts.problem.hint


def test_text_with_a_zero_byte_is_read(tmp_path):
    (row,) = read(tmp_path / "in.csv", "id,text\n1,a\0b\n")
    assert row.texts == ("a\0b",)


def test_column_may_be_both_text_and_kept(tmp_path):
    (row,) = read(tmp_path / "in.csv", "text\na\n", InputColumns(("text",), ("text",)))
    assert (row.texts, row.kept) == (("a",), {"text": "a"})


def test_missing_column_is_named_with_its_option(tmp_path):
    with pytest.raises(DataError, match=r"'id' \(--keep\)"):
        read(tmp_path / "in.csv", "text\na\n")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"'text' \(--text\)"):
        read(tmp_path / "in.parquet", (tmp_path / "in.parquet").read_bytes())


def test_parquet_rows_and_their_number_are_read(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", None]}), tmp_path / "in.parquet")
    with open_rows(Input(tmp_path / "in.parquet", FORMATS["parquet"].usual), COLUMNS) as source:
        good, bad = source.rows
    assert (source.total, source.unit) == (2, "row")
    assert good == Row(1, ("a",), {"id": 1})
    assert bad.problem.message == "column 'text' is null, not text"


def test_parquet_from_standard_input_is_refused():
    with (
        pytest.raises(DataError, match="standard input"),
        open_rows(Input(None, FORMATS["parquet"].usual), COLUMNS),
    ):
        pass


@pytest.mark.parametrize("blank", ["", " \t", "\u00a0\u2003"])
def test_row_without_text_cannot_be_predicted_as_it_is_no_row_of_training(tmp_path, blank):
    pair = InputColumns(("title", "text"), ())
    half, bad = read(tmp_path / "in.csv", f"title,text\na,{blank}\n{blank},{blank}\n", pair)
    assert half.texts == ("a", blank)
    assert bad.problem.message == "column 'title' and 'text': no text, or only white space"


def test_unpaired_surrogate_in_a_kept_list_makes_a_bad_row(tmp_path):
    bad, good = read(
        tmp_path / "in.jsonl", '{"text": "a", "id": ["\\ud83d"]}\n{"text": "a", "id": ["\\ud83d\\ude42"]}\n'
    )
    assert bad.problem.message == "column 'id' has an unpaired surrogate, \\ud83d"
    assert good.kept == {"id": ["🙂"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "in.jsonl.gz",
            gzip.compress(b'{"id": 1, "text": "a"}\n' * MB),
            "in.jsonl.gz: it unpacks to more than 1 MB (--max-unpacked-mb)",
        ),
        (
            "in.parquet",
            parquet(["a"] * 20 + ["b" * 200]),
            "row 21, column 'text': 200 characters, more than 100 (--max-cell-characters)",
        ),
        (
            "in.parquet",
            parquet([f"{row:099}" for row in range(20_000)]),
            "row group 1: its rows take more than 1 MB (--max-row-group-mb)",
        ),
    ],
    ids=["unpacked", "cell", "row group"],
)
def test_file_beyond_a_limit_is_refused_with_the_option_that_sets_it(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    kind = "parquet" if name.endswith("parquet") else "jsonl"
    given = Input(tmp_path / name, FORMATS[kind].usual, limits=Limits(100, MB, MB))
    with pytest.raises(DataError, match=re.escape(message)), open_rows(given, COLUMNS) as source:
        list(source.rows)
