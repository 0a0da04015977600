import io
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.readers import text as text_module
from tuneline.readers.delimited import CSV as FORMAT
from tuneline.readers.delimited import DelimitedReader
from tuneline.readers.rows import DEFAULT_LIMITS, Limits, RowProblem
from tuneline.readers.tables import Layout
from tuneline.readers.text import TextLines
from tuneline.runtime.errors import DataError

CSV = FORMAT.usual


def lines_of(text, strict=True, limits=DEFAULT_LIMITS):
    return TextLines(io.StringIO(text, newline=""), "file", strict=strict, limits=limits)


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


def test_quote_that_is_never_closed_does_not_swallow_the_file():
    rows = list(
        DelimitedReader(lines_of('id,text\n1,a\n2,"open\n' + "3,b\n" * 200, limits=Limits(cell=100)), CSV)
    )
    assert isinstance(rows[1][1], RowProblem)
    assert sum(isinstance(fields, list) for _, fields in rows) > 100


@pytest.mark.parametrize(("content", "byte"), [(b"id,text\n1,a\n2,\xe9\n3,c\n", "0xe9")])
def test_bytes_of_another_encoding_are_the_problem_of_their_row(content, byte):
    lines = lines_of(content.decode(errors="surrogateescape"))
    (_, one), (_, two), (_, three) = DelimitedReader(lines, CSV)
    assert (one, three) == (["1", "a"], ["3", "c"])
    assert (two.line, two.message) == (3, f"not utf-8: byte {byte}")


@pytest.mark.parametrize("bad", ["\0", "\udce9"])
def test_row_of_several_lines_with_a_bad_byte_counts_once(bad):
    """As in the e-mails of SpamAssassin."""
    lines = lines_of(f'id,text\n1,"a\n\nlong {bad}\n\nletter"\n2,b\n')
    (_, one), (_, two) = DelimitedReader(lines, CSV)
    assert two == ["2", "b"]
    assert one.lines == 1
    assert one.content.endswith('letter"\n')


def test_row_that_swallows_others_counts_for_all():
    (_, problem), last = DelimitedReader(lines_of('id,text\n1,"open\n2,b\n3,c\n4,"d"\n5,e\n'), CSV)
    assert problem.lines == 4
    assert last == (6, ["5", "e"])


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_content_gives_rows_or_problems(content):
    assert all(
        isinstance(fields, list | RowProblem)
        for _, fields in DelimitedReader(lines_of("id,text\n" + content), CSV)
    )


@pytest.mark.parametrize("at", [1, 3, 900, 1000])
def test_quote_that_is_never_closed_or_doubled_is_named_with_the_line_where_it_opens(at):
    """As in the question pairs of Quora: of a stray quote in the header, the line was that where its field
    became too long."""
    rows = ["id\tquestion", *(f'{row}\t"How do I ""learn"" {row} things?"' for row in range(2, 1001))]
    for field in ('"How do I say', '"How do "I" say"'):
        rows[at - 1] = f"id\t{field}"
        lines = lines_of("\n" * 2 + "\n".join(rows) + "\n", limits=Limits(cell=5_000))
        with pytest.raises(DataError) if at == 1 else nullcontext() as refused:
            (problem,) = [
                row
                for _, row in DelimitedReader(lines, Layout(FORMAT, delimiter="\t"))
                if isinstance(row, RowProblem)
            ][:1]
        if refused is None:
            assert problem.line == at + 2
        else:
            assert str(refused.value).startswith("file, line 3, in the header: ")


def test_row_equal_to_the_header_is_a_problem_only_where_reading_is_strict():
    content = "id,text\n1,a\nid,text\n"
    _, (line, problem) = DelimitedReader(lines_of(content), CSV)
    assert (line, problem.message) == (3, "a second header line")
    assert list(DelimitedReader(lines_of(content, strict=False), CSV)) == [
        (2, ["1", "a"]),
        (3, ["id", "text"]),
    ]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("id,text\n1,a\n\ufeffid,text\n2,b\n", 3, "a second header line"),
        ('id,text\n1,a\n\ufeff"id","text"\n2,b\n', 3, "a second header line"),
        ("id,text\n1,a\nID,Text\n2,b\n", 3, "a second header line"),
        ("id,text\n1,a\ntext,id\nb,2\n", 3, "a second header line, in another order"),
        ("id,text\n1,a\n\ufeff2,b\n", 3, "a byte order mark in front of the row"),
        ("id,text\n1,a\ufeffid,text\n2,b\n", 2, "3 columns, but 2 in the header"),
    ],
)
def test_file_that_was_appended_to_another_is_noticed_at_its_first_line(content, line, message):
    problems = [
        (problem.line, problem)
        for _, problem in DelimitedReader(lines_of(content), CSV)
        if isinstance(problem, RowProblem)
    ]
    ((found, problem),) = problems
    assert (found, problem.message) == (line, message)
    assert "join" in problem.hint or "appended" in problem.hint


def test_rows_that_begin_like_the_header_are_rows():
    content = "id,text\nid 7,text\nidea,a\n,text\n"
    assert [fields for _, fields in DelimitedReader(lines_of(content), CSV)] == [
        ["id 7", "text"],
        ["idea", "a"],
        ["", "text"],
    ]


def test_bad_byte_stays_in_its_field_where_reading_is_not_strict():
    assert list(DelimitedReader(lines_of("id,text\n1,\udce9\n", strict=False), CSV)) == [(2, ["1", "\udce9"])]


@pytest.mark.parametrize("strict", [True, False])
def test_bad_byte_in_the_header_is_refused(strict):
    with pytest.raises(DataError, match=r"line 1, .*byte 0xe9"):
        DelimitedReader(lines_of("id,\udce9\n", strict), CSV)


@pytest.mark.timeout(60)
def test_header_of_very_many_columns_is_read_in_linear_time():
    """A small file must not occupy for hours who reads it."""
    names = [f"c{number}" for number in range(500_000)]
    assert DelimitedReader(lines_of(",".join(names) + "\n"), CSV).names == names
    with pytest.raises(DataError, match="a column twice"):
        DelimitedReader(lines_of(",".join([*names, names[-1]]) + "\n"), CSV)


def test_over_long_line_is_a_problem_and_reading_continues(monkeypatch):
    monkeypatch.setattr(text_module, "LONGEST_LINE", 20)
    (line, problem), last = DelimitedReader(lines_of("id,text\n1," + "x" * 100 + "\n2,b\n"), CSV)
    assert (line, problem.message) == (2, "longer than 20 characters")
    assert last == (3, ["2", "b"])


@pytest.mark.parametrize("literal", [True, False])
def test_too_long_field_is_a_problem_of_its_row(literal):
    lines = lines_of("id,text\n1," + "x" * 101 + "\n2," + "x" * 100 + "\n", limits=Limits(cell=100))
    (_, problem), last = DelimitedReader(lines, Layout(FORMAT, quoting="literal" if literal else "standard"))
    assert (
        problem.message.endswith("a field has more than 100 characters (data.files.max_cell_characters)")
        is not literal
    )
    assert "more than 100 characters (data.files.max_cell_characters)" in problem.message
    assert "raise data.files.max_cell_characters" in problem.hint
    assert last == (3, ["2", "x" * 100])
