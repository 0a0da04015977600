"""What is written is what the readers of inputs read, whatever the texts, column names and class names
are."""

import json
import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneline.core.runtime.terminal import CONTROL_CHARACTERS
from tuneline.model.tasks import Classification, Multilabel
from tuneline.rows.reading.formats import FORMATS
from tuneline.rows.reading.tables import open_table
from tuneline.serve.columns import OutputColumns, Row
from tuneline.serve.writing import PredictionOutput, json_line, open_writer

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | st.text(
    'ab\r\n\t", \ufeff', min_size=1, max_size=5
)
COLUMN = st.sampled_from(["label", "input_label", "row", "probability_a"]) | TEXTS.filter(bool)
many_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def write(path, kind, names, cells, labels=("a", "b")):
    """Write a row for each tuple of cells, and return the names of their columns."""
    columns = OutputColumns(Classification(labels), tuple(names))
    rows = [Row(number, ("",), values) for number, values in enumerate(cells, start=1)]
    with open_writer(PredictionOutput(path, kind), columns) as writer:
        writer.write(rows, np.tile([0.25, 0.75], (len(rows), 1)))
    return columns.copied[1:]


def read(path, kind, names):
    """Return the label and the cells of each row."""
    with open_table(FORMATS[kind].usual(path)) as table:
        return [tuple(values) for _, values in table.rows(["label", *names])]


@many_files
@given(data=st.data(), kind=st.sampled_from(["csv", "jsonl", "parquet"]))
def test_any_texts_names_and_labels_are_read_back(tmp_path, data, kind):
    names = data.draw(st.lists(COLUMN, min_size=1, max_size=3, unique=True))
    cells = data.draw(st.lists(st.tuples(*[TEXTS] * len(names)), min_size=1, max_size=5))
    label = data.draw(TEXTS.filter(lambda text: text.strip() and text != "a"))
    renamed = write(tmp_path / f"out.{kind}", kind, names, cells, ("a", label))
    assert read(tmp_path / f"out.{kind}", kind, renamed) == [(label, *values) for values in cells]


@given(st.text())
def test_json_line_has_nothing_that_a_terminal_obeys_and_is_read_back(text):
    line = json_line({"text": text, "a\x9b": text})
    assert not CONTROL_CHARACTERS.search(line)
    assert json.loads(line) == {"text": text, "a\x9b": text}


def test_kept_number_that_is_nan_or_infinite_is_null_in_json(tmp_path):
    nested = [{"share": math.inf}, 2.5]
    write(tmp_path / "out.jsonl", "jsonl", ["price", "nested"], [(math.nan, nested), (1.5, [])])
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert (first["price"], first["nested"]) == (None, [{"share": None}, 2.5])
    assert (second["price"], second["nested"]) == (1.5, [])


SETS = Multilabel(("billing", "=damage", "a;b"), thresholds=(0.5, 0.25, 0.5))
SHARES = np.array([[0.75, 0.375, 0.125], [0.125, 0.125, 0.125], [0.125, 0.375, 0.125]])


def write_sets(path, kind):
    """Write predictions of several labels: two, none and one."""
    rows = [Row(number, ("",), (f"no. {number}",)) for number in (1, 2, 3)]
    output = PredictionOutput(path, kind)
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
