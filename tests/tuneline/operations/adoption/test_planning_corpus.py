"""Files of the corpus as CSV: what is decided about the columns is what the readers of ``download`` read."""

import csv

import pytest

from tests.columns_corpus import KINDS, drawn
from tests.tuneline.operations.adoption.conftest import planned
from tests.tuneline.rows.proposals.test_choice import ASKED
from tuneline.core.runtime.errors import DataError
from tuneline.rows.proposals.readings import OpenQuestionError

ROWS = 150


@pytest.mark.parametrize("name", KINDS)
def test_every_row_is_read_as_the_plan_says(project, name):
    columns = drawn(KINDS[name], seed=3, rows=ROWS, dirt=0)
    path = project / "in.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    choices = {}
    for _ in range(3):
        try:
            plan = planned(path, **choices)
        except OpenQuestionError as question:
            choices |= question.answers[0].choices
        except DataError:
            assert KINDS[name].expected.doubt_only or name in ASKED
            return
        else:
            break
    expected = KINDS[name].expected
    if expected.doubt_only or "among numbers" in name or "mostly" in name or "missing" in name:
        return  # some rows have no label
    rows = sum(plan.rows.splits.values())
    assert rows == ROWS
    assert plan.rows.left_out == 0
    if expected.layout is not None and not choices:
        assert plan.decision.sets.layout == expected.layout
