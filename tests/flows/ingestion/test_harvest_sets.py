"""New rows whose labels are sets: they are compared whole, in any order of their names and in any layout."""

import csv

import pytest

from flows.ingestion.conflicts import write_contradictions
from tests.flows.ingestion.test_harvest import Desk
from tests.params import params

SETS = [("late parcel", ["delivery"]), ("wrong invoice, late", ["billing", "delivery"]), ("hello", [])]
SEPARATED = {"layout": "separated", "separator": ";"}
TASK = {"task": "multilabel", "label_column": "tags", "label_sets": SEPARATED}


def lines(rows, separator=";") -> str:
    return "text,tags\n" + "".join(f'"{text}",{separator.join(names)}\n' for text, names in rows)


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    desk.put("data/source/train.csv", lines(SETS))
    desk.put("data/source/validation.csv", lines([("where is it", ["delivery"])]))
    desk.put("data/source/test.csv", lines([("my invoice", ["billing"])]))
    return desk


def test_sets_are_new_known_or_in_conflict_whatever_the_order_of_their_names(desk):
    rows = [
        ("new one", ["delivery", "billing"]),
        ("New ONE", ["billing", "delivery"]),
        ("wrong invoice, late", ["delivery", "billing"]),
        ("hello", []),
        ("late parcel", ["delivery", "billing"]),
        ("late parcel", []),
        ("where is it", ["delivery"]),
        ("new and without a label", []),
        ("new one", ["billing"]),
    ]
    desk.put("data/labelled/a.csv", lines(rows))
    harvest = desk.harvest(**TASK)
    assert not harvest.problems
    (entry,) = harvest.entries
    assert entry.counts == "2 new, 3 duplicate, 3 conflicting, 1 held out"
    assert desk.rows(harvest) == [("new one", ["billing", "delivery"]), ("new and without a label", [])]
    again = desk.harvest(**TASK)
    assert (again.rows, again.entries[0].duplicates) == (0, 5), "the batch is read as lists"


@pytest.mark.parametrize(
    ("sets", "train", "new"),
    [
        (
            {"layout": "columns", "columns": ["billing", "delivery"]},
            "text,billing,delivery\nlate parcel,0,1\n",
            "text,billing,delivery\nlate parcel,0,1\nboth,1,1\nnone,0,0\nopen,?,?\n",
        ),
        (
            {"layout": "lists"},
            "text,tags\nlate parcel,['delivery']\nfirst,['billing']\n",
            "text,tags\nlate parcel,['delivery']\nboth,\"['delivery', 'billing']\"\nnone,[]\nopen,?\n",
        ),
        (
            {"layout": "rows"},
            "text,tags\nlate parcel,delivery\nfirst,billing\n",
            "text,tags\nlate parcel,delivery\nboth,billing\nboth,delivery\nnone,\nopen,?\n",
        ),
    ],
)
def test_every_layout_becomes_a_batch_of_lists_and_open_rows_are_left_out(tmp_path, sets, train, new):
    desk = Desk(tmp_path)
    desk.put("data/source/train.csv", train)
    header = train.splitlines()[0]
    for split in ("validation", "test"):
        desk.put(f"data/source/{split}.csv", f"{header}\n")
    desk.put("data/labelled/a.csv", new)
    harvest = desk.harvest(**{**TASK, "label_sets": sets})
    assert not harvest.problems
    (entry,) = harvest.entries
    assert entry.counts == "2 new, 1 duplicate, 1 incomplete"
    assert desk.rows(harvest) == [("both", ["billing", "delivery"]), ("none", [])]
    assert desk.harvest(**{**TASK, "label_sets": sets}).rows == 0


def test_conflicting_sets_are_listed_as_people_write_them(desk):
    desk.put("data/labelled/a.csv", lines([("late parcel", ["delivery", "billing"]), ("hello", ["billing"])]))
    harvest = desk.harvest(**TASK)
    assert [(one.label, one.row_of_data) for one in harvest.contradictions] == [
        ("billing;delivery", (("late parcel",), "delivery")),
        ("billing", (("hello",), "(none)")),
    ]
    data = params(data={"source": "files", "text_columns": ["text"], **TASK}).data
    path = desk.root / "conflicts.csv"
    write_contradictions(path, data, harvest.contradictions)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["label"], row["proposed"]) for row in rows] == [
        ("delivery", "billing;delivery"),
        ("(none)", "billing"),
    ]
