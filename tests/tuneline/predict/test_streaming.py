from tuneline.predict.streaming import REPORTED, good_rows
from tuneline.readers.inputs import BadRow, InputColumns, InputRows, Row
from tuneline.readers.rows import BadRowPolicy, BadRows, RowProblem


def every_second_row_bad(count):
    def row(number):
        return (
            BadRow(number, RowProblem(number, "broken", "Correct it."))
            if number % 2
            else Row(number, ("a",), {})
        )

    return InputRows(InputColumns(("text",), ()), map(row, range(1, count + 1)), "line")


def test_skipped_rows_are_counted_and_the_first_ones_reported(capsys):
    bad = BadRows("in.csv", "line", BadRowPolicy(1.0))
    rows = list(good_rows(every_second_row_bad(100), bad))
    assert [row.number for row in rows] == list(range(2, 101, 2))
    assert bad.count == 50
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == REPORTED + 1
    assert lines[0] == "skipped row 1 (line 1): broken"
