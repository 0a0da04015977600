"""What is proposed for the labels of several people works as it is printed."""

import csv

import pytest

from tests.columns_corpus import KINDS, drawn
from tests.tuneline.columns.test_choice import decision_on
from tuneline.columns.annotators import names_person
from tuneline.runtime.errors import DataError

ROWS = 150


def write(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def run_lines(message):
    """Run the Python of a message."""
    code = []
    for line in message.splitlines():
        if line.startswith("    ") and "tuneline init" not in line:
            code.append(line.strip())
    assert len(code) == 2
    exec("\n".join(code), {})  # noqa: S102 - it is ours


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("columns of annotators", "classification"),
        ("label_1 to label_3 of people", "classification"),
        ("columns of raters", "regression"),
    ],
)
def test_lines_that_are_printed_write_the_label_of_most_people(tmp_path, monkeypatch, name, task):
    columns = drawn(KINDS[name], seed=1, rows=ROWS, dirt=0)
    with pytest.raises(DataError) as refused:
        decision_on(columns)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "FILE.csv", columns)
    run_lines(str(refused.value))
    with (tmp_path / "one-label.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    written = {column: [row[column] for row in rows] for column in rows[0]}
    decision = decision_on(written)
    assert (decision.label_column, decision.task, decision.doubt) == ("label", task, None)


@pytest.mark.parametrize(
    ("name", "is_person"),
    [
        ("annotator", True),
        ("WorkerId", True),
        ("rater_a", True),
        ("Labeler 2", True),
        ("encoder", False),
        ("judgement", False),
        ("coworkers_text", False),
        ("label", False),
    ],
)
def test_columns_of_people_are_known_by_their_names(name, is_person):
    assert names_person(name) == is_person
