"""New rows from files in a drop folder to a batch file, without git, DVC and Prefect."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.params import params
from tuneline.core.runtime.errors import ParamsError
from tuneline.operations.new_rows import Harvester, NewRows


class Desk:
    """A repository and a checkout of it, both the same folder, and what its user does there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[str] = []
        self.runs = 0

    def put(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def harvest(self, settle_seconds: float = 0, folder: str = "data/labelled", **data) -> NewRows:
        given = {"source": "files", "text_columns": ["text"], "label_column": "label", **data}
        harvester = Harvester(self.root, params(data=given).data, self.log.append)
        self.runs += 1
        return harvester.harvest(self.root / folder, settle_seconds, self.root / f"scratch-{self.runs}")

    def rows(self, new: NewRows) -> list[tuple]:
        return [tuple(row.values()) for row in pq.read_table(self.root / new.batch).to_pylist()]


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    desk.put(
        "data/source/train.csv",
        "text,label\nmy parcel is late,delivery\nthe invoice is wrong,billing\nno label,\n",
    )
    desk.put("data/source/validation.csv", "text,label\nwhere is my parcel,delivery\n")
    desk.put("data/source/test.csv", "text,label\nwhere is my invoice,billing\n")
    return desk


def test_new_rows_of_every_format_become_one_batch_and_others_are_counted(desk):
    desk.put(
        "data/labelled/a.csv",
        "label,note,text\ndelivery,x,my parcel is lost\ndelivery,x,My  parcel is LATE\nbilling,,no label\n",
    )
    desk.put(
        "data/labelled/b.jsonl",
        '{"text": "pay the invoice", "label": "billing"}\n'
        '{"text": "Where is my parcel", "label": "delivery"}\n{"text": "nobody knows", "label": ""}\n',
    )
    desk.put(
        "data/labelled/c.tsv.gz",
        gzip.compress(
            b"text\tlabel\nthe invoice is wrong\tdelivery\nmy parcel is lost\tdelivery\n"
            b"pay the invoice\tdelivery\nwhere is my invoice\tdelivery\n"
        ),
    )
    desk.put("data/labelled/notes.xlsx", "no data")
    new = desk.harvest()
    assert new.summary == "3 new, 2 duplicate, 3 conflicting, 1 held out, 1 incomplete"
    assert [line for line in desk.log if "but" in line] == [
        "c.tsv.gz, line 2: delivery, but billing in the data",
        "c.tsv.gz, line 4: delivery, but billing in the data",
        "c.tsv.gz, line 5: delivery, but billing in the data",
    ], "with a row of the data, of another file of the run, and of the test split"
    assert desk.rows(new) == [
        ("my parcel is lost", "delivery"),
        ("no label", "billing"),
        ("pay the invoice", "billing"),
    ], "a row of the data that has no label gets one"
    assert [incoming.name for incoming in new.files] == ["a.csv", "b.jsonl", "c.tsv.gz"]
    assert not new.refused
    assert any("Not read: notes.xlsx has no name" in line for line in desk.log)

    (desk.root / new.batch).unlink()
    assert desk.harvest().batch == new.batch, "the same rows give the same bytes"
    again = desk.harvest()
    assert (again.counts["new"], again.batch) == (0, None), "what is in the data is not added twice"


def test_labels_of_unlabelled_held_out_rows_stay_out(desk):
    desk.put("data/source/test.csv", "text,label\nwhere is my invoice,\n")
    desk.put("data/labelled/a.csv", "text,label\nwhere is my invoice,billing\n")
    assert desk.harvest().summary == "0 new, 1 held out"


def test_file_that_cannot_be_read_gives_no_row_and_stops_no_other(desk):
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\n,billing\n")
    desk.put("data/labelled/b.csv", "text,label\ngood row,billing\n")
    desk.put("data/labelled/c.csv", "text,label\na new class,biling\n")
    desk.put("data/labelled/d.jsonl", '{"text": 5, "label": "billing"}\n')
    desk.put("data/labelled/e.csv", "body,label\nx,billing\n")
    new = desk.harvest()
    assert desk.rows(new) == [("good row", "billing")], (
        "a row of a refused file does not make the same row of another a duplicate"
    )
    assert [incoming.name for incoming in new.files] == ["b.csv"]
    reasons = "\n".join(new.refused.values())
    assert "a.csv, line 3: no text." in reasons
    assert "c.csv, line 2, column 'label': the label is not one of 'billing', 'delivery'." in reasons
    assert "d.jsonl, line 1: column 'text' is a number, not text." in reasons
    assert "e.csv: no column 'text'" in reasons
    assert [incoming.name for incoming in new.refused] == ["a.csv", "c.csv", "d.jsonl", "e.csv"]


def test_reason_of_a_file_that_is_not_read_quotes_nothing_of_it(desk):
    """Who may read Prefect may not read all that people send."""
    numbers = {"task": "regression", "label_column": "score"}
    desk.put("data/source/train.csv", "text,label,score\na parcel,delivery,1\n")
    desk.put("data/labelled/class.csv", "text,label\na,secret\n")
    desk.put("data/labelled/header.csv", "textsecret,label\na,billing\n")
    desk.put("data/labelled/twice.csv", "text,label,secret,secret\na,billing,c,d\n")
    desk.put("data/labelled/title.csv", "secret report\n\n" + "a parcel,x,billing\n" * 9)
    desk.put("data/labelled/row.csv", "secret one,billing\nanother day,delivery\n" * 2)
    desk.put("data/labelled/encoding.csv", b"text,label\nsecret \xe9,billing\n")
    desk.put("numbers/number.csv", "text,score\na,secret\n")
    desk.put("numbers/digits.csv", "text,score\na,9007199254740993\n")
    refused = [*desk.harvest().refused.values(), *desk.harvest(folder="numbers", **numbers).refused.values()]
    assert len(refused) == 8
    assert not [text for text in (*refused, *desk.log) if "secret" in text or "900719" in text]


def test_rows_of_files_as_the_hub_names_them_are_known(desk):
    (desk.root / "data/source/test.csv").unlink()
    for number, text in enumerate(["where is my invoice", "my box is broken"]):
        table = pa.table({"text": [text], "label": ["billing"]})
        pq.write_table(table, desk.root / f"data/source/test-{number:05d}-of-00002.parquet")
    desk.put("data/labelled/a.csv", "text,label\nmy box is broken,billing\nmy parcel is lost,delivery\n")
    assert desk.harvest().summary == "1 new, 1 held out"


def test_bad_rows_are_left_out_up_to_the_share_that_the_parameters_allow(desk):
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\nno label,\n  ,billing\nbroken\n")
    desk.put(
        "data/labelled/b.jsonl",
        '{"text": "late", "label": "delivery"}\n{"text": 5, "label": "delivery"}\n'
        '{"text": "x", "label": ["delivery", "billing"]}\n',
    )
    new = desk.harvest(max_bad_share=0.5)
    assert new.summary == "1 new, 1 incomplete, 2 bad"
    (reason,) = new.refused.values()
    assert reason.startswith("b.jsonl: 2 of 3 rows are bad (66.67%), more than 0.5.")


def test_labels_are_written_as_the_data_has_them(desk):
    desk.put("data/source/train.csv", "text,label\nmy parcel is late,0\nthe invoice is wrong,1\n")
    desk.put("data/labelled/a.csv", "text,label\nby name,billing\n")
    desk.put("data/labelled/b.csv", "text,label\nby id,1\nmy parcel is late,0\n")
    new = desk.harvest(label_names=["delivery", "billing"])
    assert desk.rows(new) == [("by id", "1")]
    assert new.summary == "1 new, 1 duplicate"
    assert "the label is not one of '0', '1'" in "".join(new.refused.values())


LAYOUTS = {
    "separated": (
        {"layout": "separated", "separator": ";"},
        "text,tags\n{}\n",
        ["late parcel,delivery", "wrong invoice,billing;delivery", "hello,"],
        ["late,delivery ;billing", "Late parcel,delivery", "hello,billing", "thanks,"],
    ),
    "columns": (
        {"layout": "columns", "columns": ["billing", "delivery"]},
        "text,billing,delivery\n{}\n",
        ["late parcel,0,1", "wrong invoice,1,1", "hello,0,0"],
        ["late,1,1", "Late parcel,0,1", "hello,1,0", "thanks,0,0"],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_sets_are_added_and_contradicting_ones_are_listed(tmp_path, layout):
    sets, form, old, added = LAYOUTS[layout]
    desk = Desk(tmp_path)
    desk.put("data/source/train.csv", form.format("\n".join(old)))
    desk.put("data/labelled/new.csv", form.format("\n".join(added)))
    for split in ("validation", "test"):
        desk.put(f"data/source/{split}.csv", form.format(old[0].replace("late", split)))

    data = {"task": "multilabel", "label_column": "tags", "label_sets": sets}
    new = desk.harvest(**data)
    assert [(text, sorted(labels)) for text, labels in desk.rows(new)] == [
        ("late", ["billing", "delivery"]),
        ("thanks", []),
    ]
    assert new.summary == "2 new, 1 duplicate, 1 conflicting"
    assert any(line.endswith(": billing, but (none) in the data") for line in desk.log)

    # The batch is data now, in the layout in which it was written.
    assert desk.harvest(**data).summary == "0 new, 3 duplicate, 1 conflicting"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"source": "sample"}, "data.source is 'sample'"),
        ({"split": {"validation": 0.1, "test": 0.1}}, "data.split.stratify is true"),
    ],
)
def test_parameters_with_which_added_rows_would_move_others_are_refused(desk, data, reason):
    with pytest.raises(ParamsError, match=reason.replace("[", r"\[")):
        desk.harvest(**data)
