"""What is written is what the readers of inputs read, whatever the texts, column names and class names
are."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneline.predict.columns import OutputColumns
from tuneline.predict.writing import PredictionOutput, json_line, open_writer
from tuneline.readers.formats import FORMATS
from tuneline.readers.inputs import InputColumns, Row, open_rows
from tuneline.readers.tables import Input, open_table
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import CONTROL_CHARACTERS
from tuneline.tasks import Classification, Multilabel
from tuneline.words.spreadsheet import FORMULA

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | st.text(
    'ab\r\n\t", \ufeff', min_size=1, max_size=5
)
LINES = TEXTS.map(lambda text: text.translate(dict.fromkeys(map(ord, "\t\r\n"), " ")))
"""What a cell of a TSV file can hold."""
COLUMN = st.sampled_from(["label", "input_label", "row", "probability_a"]) | LINES.filter(bool)
many_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def write(path, kind, names, cells, labels=("a", "b"), *, excel_safe=False):
    """Write a row for each tuple of cells, and return the names of their columns."""
    columns = OutputColumns(Classification(labels), tuple(names))
    rows = [
        Row(number, ("",), dict(zip(names, values, strict=True)))
        for number, values in enumerate(cells, start=1)
    ]
    with open_writer(PredictionOutput(path, kind, excel_safe=excel_safe), columns) as writer:
        writer.write(rows, np.tile([0.25, 0.75], (len(rows), 1)))
    return columns.copied[1:]


def read(path, kind, names):
    """Return the label and the cells of each row."""
    with open_rows(Input(path, FORMATS[kind].usual), InputColumns(("label",), tuple(names))) as source:
        return [(row.texts[0], *row.kept.values()) for row in source.rows]


@many_files
@given(data=st.data(), kind=st.sampled_from(["csv", "tsv", "jsonl", "parquet"]))
def test_any_texts_names_and_labels_are_read_back(tmp_path, data, kind):
    texts = LINES if kind == "tsv" else TEXTS
    names = data.draw(st.lists(COLUMN, min_size=1, max_size=3, unique=True))
    cells = data.draw(st.lists(st.tuples(*[texts] * len(names)), min_size=1, max_size=5))
    label = data.draw(texts.filter(lambda text: text.strip() and text != "a"))
    renamed = write(tmp_path / f"out.{kind}", kind, names, cells, ("a", label))
    assert read(tmp_path / f"out.{kind}", kind, renamed) == [(label, *values) for values in cells]


@many_files
@given(data=st.data(), kind=st.sampled_from(["csv", "tsv"]))
def test_excel_safe_file_has_no_cell_and_no_name_that_a_spreadsheet_executes(tmp_path, data, kind):
    texts = (LINES if kind == "tsv" else TEXTS).map(lambda text: text.replace("\0", ""))
    formulas = texts.map(lambda text: f"={text}") | texts.map(lambda text: f"@{text}") | texts
    cells = data.draw(st.lists(st.tuples(formulas), min_size=1, max_size=5))
    label = data.draw(formulas.filter(lambda text: text.strip() and text != "a"))
    column = data.draw(formulas.filter(str.strip))
    path = tmp_path / f"out.{kind}"
    write(path, kind, [column], cells, ("a", label), excel_safe=True)
    with open_table(Input(path, FORMATS[kind].usual)) as table:
        names = table.names()
        records = [fields for _, fields in table.rows(names)]
    for cell in [*names, *(cell for record in records for cell in record)]:
        assert not cell.startswith(FORMULA) or is_number(cell)
    written = [record[1] for record in records]
    assert [cell.removeprefix(" ") for cell in written] == [text.removeprefix(" ") for (text,) in cells], (
        "nothing else is changed"
    )


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@given(st.text())
def test_json_line_has_nothing_that_a_terminal_obeys_and_is_read_back(text):
    line = json_line({"text": text, "a\x9b": text})
    assert not CONTROL_CHARACTERS.search(line)
    assert json.loads(line) == {"text": text, "a\x9b": text}


@pytest.mark.parametrize("cell", ["a\tb", "a\rb", "a\nb"])
def test_cell_that_tsv_cannot_hold_is_refused_and_nothing_is_written(tmp_path, cell):
    with pytest.raises(StageError, match="row 2, column 'text'"):
        write(tmp_path / "out.tsv", "tsv", ["text"], [("fine",), (cell,)])
    assert not list(tmp_path.iterdir())


SETS = Multilabel(("billing", "=damage", "a;b"), thresholds=(0.5, 0.25, 0.5))
SHARES = np.array([[0.75, 0.375, 0.125], [0.125, 0.125, 0.125], [0.125, 0.375, 0.125]])


def write_sets(path, kind, *, excel_safe=False):
    """Write predictions of several labels: two, none and one."""
    rows = [Row(number, ("",), {"id": f"no. {number}"}) for number in (1, 2, 3)]
    output = PredictionOutput(path, kind, excel_safe=excel_safe)
    with open_writer(output, OutputColumns(SETS, ("id",))) as writer:
        writer.write(rows, SHARES)


def test_several_labels_are_joined_in_csv_by_what_no_name_contains(tmp_path):
    write_sets(tmp_path / "out.csv", "csv")
    header, *lines = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "row,id,labels,probability_billing,probability_=damage,probability_a;b"
    assert lines == [
        "1,no. 1,billing|=damage,0.75,0.375,0.125",
        "2,no. 2,,0.125,0.125,0.125",
        "3,no. 3,=damage,0.125,0.375,0.125",
    ]
