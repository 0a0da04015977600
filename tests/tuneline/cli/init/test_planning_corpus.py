"""Files of the corpus as CSV: what is decided about the columns is what the readers of ``download`` read."""

import csv

import pytest

from tests.columns_corpus import KINDS, drawn
from tuneline.cli.init import make_plan
from tuneline.cli.init.planning import OpenQuestionError, UserChoices
from tuneline.params.loading import load_params
from tuneline.runtime.errors import DataError

ROWS = 150


@pytest.mark.parametrize("name", KINDS)
def test_every_row_is_read_as_the_plan_says(project, name):
    columns = drawn(KINDS[name], seed=3, rows=ROWS, dirt=0)
    path = project / "in.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    choices = UserChoices()
    for _ in range(3):
        try:
            plan = make_plan([path], choices, load_params(), may_ask=False)
        except OpenQuestionError as question:
            choices = choices.answered(question.doubt.alternatives[0].choice)
        except DataError:
            assert KINDS[name].expected.doubt_only
            return
        else:
            break
    expected = KINDS[name].expected
    if expected.doubt_only or "among numbers" in name or "mostly" in name:
        return  # some rows have no label
    rows = sum(counts.rows for counts in plan.counts.values())
    assert rows == ROWS
    assert plan.left_out.incomplete == plan.left_out.unreadable == 0
    if expected.layout is not None and not choices.label:
        assert plan.decision.sets.layout == expected.layout
