"""Texts in several rows: what is said where the rows are the labels of several people."""

import pytest

from tests.columns_corpus import KINDS, drawn
from tests.tuneline.columns.test_annotators import ROWS, run_lines, write
from tuneline.cli.init import make_plan
from tuneline.cli.init.planning import UserChoices
from tuneline.params.loading import load_params


@pytest.mark.usefixtures("project")
def test_rows_of_people_are_named_and_written_once_by_the_lines_that_are_printed(tmp_path):
    write(tmp_path / "FILE.csv", drawn(KINDS["a row for each annotator"], seed=1, rows=ROWS, dirt=0))
    plan = make_plan([tmp_path / "FILE.csv"], UserChoices(), load_params(), may_ask=False)
    (note,) = [note for note in plan.notes if "several people" in note]
    assert "3.0 labels per text" in note
    assert "'annotator'" in note
    assert "drop" not in note
    assert [group.name for group in plan.groups] == []
    run_lines(note)
    plan = make_plan([tmp_path / "one-label.csv"], UserChoices(), load_params(), may_ask=False)
    assert plan.notes == []
    assert sum(counts.rows for counts in plan.counts.values()) == ROWS // 3
