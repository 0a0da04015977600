"""New rows with several labels per text, in each layout of the data."""

import pytest

from tests.flows.ingestion.test_harvest import Desk

LAYOUTS = {
    "separated": (
        {"layout": "separated", "separator": ";"},
        "text,tags\n{}\n",
        ["late parcel,delivery", "wrong invoice,billing;delivery", "hello,"],
        ["late,delivery ;billing", "Late parcel,delivery", "hello,billing", "thanks,"],
    ),
    "lists": (
        {"layout": "lists"},
        "text,tags\n{}\n",
        ["late parcel,['delivery']", "wrong invoice,\"['billing', 'delivery']\"", "hello,[]"],
        ["late,\"['delivery', 'billing']\"", "Late parcel,['delivery']", "hello,['billing']", "thanks,[]"],
    ),
    "columns": (
        {"layout": "columns", "columns": ["billing", "delivery"]},
        "text,billing,delivery\n{}\n",
        ["late parcel,0,1", "wrong invoice,1,1", "hello,0,0"],
        ["late,1,1", "Late parcel,0,1", "hello,1,0", "thanks,0,0"],
    ),
    "rows": (
        {"layout": "rows"},
        "text,tags\n{}\n",
        ["late parcel,delivery", "wrong invoice,billing", "wrong invoice,delivery", "hello,"],
        ["late,delivery", "Late parcel,delivery", "hello,billing", "late,billing", "thanks,"],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_sets_are_added_and_contradicting_ones_are_listed(tmp_path, layout):
    sets, form, old, new = LAYOUTS[layout]
    desk = Desk(tmp_path)
    desk.put("data/source/train.csv", form.format("\n".join(old)))
    desk.put("data/labelled/new.csv", form.format("\n".join(new)))
    for split in ("validation", "test"):
        desk.put(f"data/source/{split}.csv", form.format(old[0].replace("late", split)))

    data = {"task": "multilabel", "label_column": "tags", "label_sets": sets}
    harvest = desk.harvest(**data)
    assert desk.rows(harvest) == [("late", ["billing", "delivery"]), ("thanks", [])]
    (entry,) = harvest.entries
    assert (entry.added, entry.duplicates, entry.conflicts) == (2, 1, 1)
    (contradiction,) = harvest.contradictions
    assert (contradiction.label, contradiction.row_of_data) == ("billing", (("hello",), "(none)"))

    # The batch is data now, in the layout in which it was written.
    assert desk.harvest(**data).entries[0].duplicates == 3


def test_unknown_name_of_a_set_is_refused_with_its_place(tmp_path):
    desk = Desk(tmp_path)
    sets = {"layout": "separated", "separator": ";"}
    for split in ("train", "validation", "test"):
        desk.put(f"data/source/{split}.csv", f"text,tags\n{split},billing;delivery\n")
    desk.put("data/labelled/new.csv", "text,tags\nthanks,billing;praise\n")
    harvest = desk.harvest(task="multilabel", label_column="tags", label_sets=sets)
    (problem,) = harvest.problems
    assert "line 2, column 'tags': the label is not one of 'billing', 'delivery'" in problem
