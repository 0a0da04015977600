"""New rows from files in a drop folder to batch files, without git, DVC and Prefect."""

import gzip
import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.ingestion.harvest import Harvester, NewRows
from flows.ingestion.ledger import LEDGER, Ledger
from tests.params import params
from tuneline.core.written_records import write_record
from tuneline.runtime.errors import ParamsError
from tuneline.settings import IngestSource

FILES = {"data.source": "files"}
LABELS = IngestSource(name="labels", folder=Path("data/labelled"))


def no_texts(id_column: str, ids: pa.Array) -> pa.Table:
    raise AssertionError(f"no text was to be found for {id_column} {ids}")


class Desk:
    """A repository and a checkout of it, both the same folder, and what its user does there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[str] = []

    def put(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (time.time() - 60,) * 2)

    def harvest(self, *sources: IngestSource, key: str | None = None, find_texts=no_texts, **data) -> NewRows:
        given = {"source": "files", "text_columns": ["text"], "label_column": "label", **data}
        harvester = Harvester(
            self.root, self.root, params(data=given).data, key=key, find_texts=find_texts, log=self.log.append
        )
        return harvester.harvest(sources or (LABELS,), self.root / "scratch")

    def rows(self, harvest: NewRows) -> list[tuple]:
        return [
            tuple(row.values())
            for batch in harvest.batches
            for row in pq.read_table(self.root / batch).to_pylist()
        ]


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    desk.put(
        "data/source/train.csv", "text,label\nmy parcel is late,delivery\nthe invoice is wrong,billing\n"
    )
    desk.put("data/source/validation.csv", "text,label\nwhere is my parcel,delivery\n")
    desk.put("data/source/test.csv", "text,label\nwhere is my invoice,billing\n")
    return desk


def test_new_rows_of_every_format_become_one_batch_and_others_are_counted(desk):
    desk.put(
        "data/labelled/a.csv", "label,note,text\ndelivery,x,my parcel is lost\ndelivery,x,My parcel is LATE\n"
    )
    desk.put(
        "data/labelled/b.jsonl",
        '{"text": "pay the invoice", "label": "billing"}\n{"text": "Where is my parcel", "label":'
        ' "delivery"}\n',
    )
    desk.put(
        "data/labelled/c.tsv.gz",
        gzip.compress(b"text\tlabel\nthe invoice is wrong\tdelivery\nmy parcel is lost\tdelivery\n"),
    )
    desk.put("data/labelled/notes.xlsx", "no data")
    harvest = desk.harvest()
    (entry,) = harvest.entries
    assert entry.counts == "2 new, 2 duplicate, 1 conflicting, 1 held out"
    assert entry.conflicting == ["c.tsv.gz, line 2"]
    assert "labels: c.tsv.gz, line 2 is left out: the data has this row with another label." in desk.log
    assert desk.rows(harvest) == [("my parcel is lost", "delivery"), ("pay the invoice", "billing")]
    assert [read.name for read in entry.files] == ["a.csv", "b.jsonl", "c.tsv.gz"]
    assert not harvest.problems
    assert any("not read: notes.xlsx has an ending" in line for line in desk.log)

    name = Path(entry.batch).name
    assert name.startswith(f"{entry.date[:10]}-labels-")
    (desk.root / entry.batch).unlink()
    assert Path(desk.harvest().entries[0].batch).name == name, "the same rows give the same bytes"
    again = desk.harvest()
    assert (again.rows, again.batches) == (0, []), "what is in the data is not added twice"
    assert [one.path.name for one in again.done] == ["a.csv", "b.jsonl", "c.tsv.gz"]


def test_file_that_cannot_be_read_gives_no_row_and_stops_no_other(desk):
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\n,billing\n")
    desk.put("data/labelled/b.csv", "text,label\ngood row,billing\n")
    desk.put("data/labelled/c.csv", "text,label\na new class,biling\n")
    desk.put("data/labelled/d.jsonl", '{"text": 5, "label": "billing"}\n')
    desk.put("data/labelled/e.csv", "body,label\nx,billing\n")
    harvest = desk.harvest()
    assert desk.rows(harvest) == [("good row", "billing")], (
        "a row of a refused file does not make the same row of another a duplicate"
    )
    assert [one.path.name for one in harvest.done] == ["b.csv"]
    reasons = "\n".join(harvest.problems)
    assert "labels: a.csv, line 3: no text." in reasons
    assert "labels: c.csv, line 2, column 'label': the label is not one of 'billing', 'delivery'." in reasons
    assert "labels: d.jsonl, line 1: column 'text' is a number, not text." in reasons
    assert "labels: e.csv: no column 'text' (data.text_columns)" in reasons
    assert len(harvest.problems) == 4


def test_reason_of_a_file_that_is_not_read_quotes_nothing_of_it(desk):
    """Who may read Prefect may not read all that people send."""
    rows = {"task": "regression", "label_column": "score"}
    desk.put("data/source/train.csv", "text,label,score\na parcel,delivery,1\n")
    desk.put("data/labelled/class.csv", "text,label\na,secret\n")
    desk.put("data/labelled/header.csv", "textsecret,label\na,billing\n")
    desk.put("data/labelled/twice.csv", "text,label,secret,secret\na,billing,c,d\n")
    desk.put("data/labelled/kinds.jsonl", '{"text": "a", "label": "billing"}\n{"text": "b", "label": 536}\n')
    desk.put("data/labelled/encoding.csv", b"text,label\nsecret \xe9,billing\n")
    desk.put("numbers/number.csv", "text,score\na,secret\n")
    desk.put("numbers/digits.csv", "text,score\na,9007199254740993\n")
    problems = [
        *desk.harvest().problems,
        *desk.harvest(IngestSource(name="numbers", folder=Path("numbers")), **rows).problems,
    ]
    assert len(problems) == 7
    assert not [
        text for text in (*problems, *desk.log) if "secret" in text or "536" in text or "900719" in text
    ]


def test_link_in_a_drop_folder_is_not_followed(desk):
    desk.put("secret.csv", "text,label\npassword,billing\n")
    (desk.root / "data/labelled").mkdir()
    (desk.root / "data/labelled/a.csv").symlink_to(desk.root / "secret.csv")
    assert not desk.harvest().entries
    assert any("not read: a.csv is a link, which is not followed" in line for line in desk.log)


def test_new_files_that_disagree_are_both_named(desk):
    desk.put("data/labelled/a.csv", "text,label\nmy parcel is lost,delivery\n")
    desk.put("data/labelled/b.csv", "text,label\nanother row,billing\nmy parcel is lost,billing\n")
    assert desk.harvest().entries[0].counts == "2 new, 1 conflicting"
    assert "labels: b.csv, line 3 is left out: a.csv has this row with another label." in desk.log


def test_rows_that_nobody_has_labelled_yet_are_left_out(desk):
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\nopen row,\nanother,  \n")
    (entry,) = desk.harvest().entries
    assert entry.counts == "1 new, 2 incomplete"


def test_bad_rows_are_left_out_up_to_the_share_that_the_parameters_allow(desk):
    desk.put(
        "data/source/train.csv",
        "text,label\nbroken\nmy parcel is late,delivery\nthe invoice is wrong,billing\n",
    )
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\nno label,\n  ,billing\nbroken\n")
    desk.put(
        "data/labelled/b.jsonl",
        '{"text": "late", "label": "delivery"}\n{"text": 5, "label": "delivery"}\n{"text": "x", "label":'
        " []}\n",
    )
    harvest = desk.harvest(bad_rows="skip", max_bad_share=0.5)
    assert harvest.entries[0].counts == "1 new, 1 incomplete, 2 bad"
    assert harvest.problems == [
        "labels: b.jsonl: 2 of 3 rows are bad (66.67%), more than 0.5 (data.max_bad_share).\n  line 2: column"
        " 'text' is a number, not text\n  line 3, column 'label': a label is text or a number, not a list"
    ]


def test_file_that_changed_a_moment_ago_waits(desk):
    (desk.root / "data/labelled").mkdir()
    (desk.root / "data/labelled/a.csv").write_text("text,label\nhalf a ro")
    assert not desk.harvest().entries
    assert desk.log[-1] == "labels: a.csv is still being written; the next run reads it."


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells")
def test_file_whose_writer_pauses_waits(desk):
    desk.put("data/labelled/a.csv", "text,label\ngood row,billing\n")
    with (desk.root / "data/labelled/a.csv").open("a"):
        assert not desk.harvest().entries
    assert desk.harvest().rows == 1


def test_labels_are_written_as_the_data_has_them(desk):
    desk.put("data/source/train.csv", "text,label\nmy parcel is late,0\nthe invoice is wrong,1\n")
    desk.put("data/labelled/a.csv", "text,label\nby name,billing\nby id,1\nmy parcel is late,delivery\n")
    harvest = desk.harvest(label_names=["delivery", "billing"])
    assert desk.rows(harvest) == [("by name", "1"), ("by id", "1")]
    assert harvest.entries[0].counts == "2 new, 1 duplicate"


def test_numbers_of_a_regression(desk):
    for split in ("train", "validation", "test"):
        desk.put(f"data/source/{split}.csv", f"text,label\nrow of {split},1.5\n")
    desk.put(
        "data/labelled/a.jsonl", '{"text": "new", "label": 2}\n{"text": "row of train", "label": "1.50"}\n'
    )
    harvest = desk.harvest(task="regression")
    assert desk.rows(harvest) == [("new", 2.0)]
    assert harvest.entries[0].counts == "1 new, 1 duplicate"


def test_group_and_key_are_columns_of_the_batch(desk):
    desk.put("data/source/all.csv", "text,label,customer,ticket\na,billing,7,1\nb,delivery,8,2\n")
    desk.put(
        "data/labelled/a.jsonl",
        json.dumps({"text": "c", "label": "billing", "customer": 7.0, "ticket": 3}) + "\n",
    )
    desk.put("data/labelled/b.csv", "text,label,customer,ticket\nd,delivery,9,1\n")
    split = {"validation": 0.2, "test": 0.2, "by": "customer", "stratify": False}
    harvest = desk.harvest(
        key="ticket", split=split, splits={"train": "all", "validation": "validation", "test": "test"}
    )
    assert desk.rows(harvest) == [("c", "billing", "7", "3")]
    assert harvest.entries[0].counts == "1 new, 1 conflicting", "ticket 1 has another label"
    assert Path(harvest.entries[0].batch).parent == Path("data/source/all"), (
        "the stage divides them by customer"
    )


def test_late_labels_are_joined_with_the_texts_that_were_scored(desk):
    desk.put("data/labelled/a.csv", "ticket,label\n7,billing\n8,delivery\n9,billing\n")

    def scored(id_column: str, ids: pa.Array) -> pa.Table:
        assert (id_column, ids.to_pylist()) == ("ticket", ["7", "8", "9"])
        return pa.table({"ticket": ["7", "9"], "text": ["scored under 7", "scored under 9"]})

    late = LABELS.model_copy(update={"id": "ticket"})
    harvest = desk.harvest(late, find_texts=scored)
    assert desk.rows(harvest) == [("scored under 7", "billing"), ("scored under 9", "billing")]
    assert harvest.entries[0].counts == "2 new, 1 unmatched"
    assert not harvest.done, "the file stays until each of its texts is known"
    assert len(harvest.files) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"source": "sample"}, "data.source is 'sample'"),
        ({"split": {"validation": 0.1, "test": 0.1}}, "data.split.stratify is true"),
        ({"splits": {"train": "train[:80%]", "validation": "validation", "test": "test"}}, "without slices"),
        ({"splits": {"train": "train", "validation": "train[80%:]", "test": "test"}}, "more than one split"),
    ],
)
def test_parameters_with_which_added_rows_would_move_others_are_refused(desk, data, reason):
    with pytest.raises(ParamsError, match=reason.replace("[", r"\[")):
        desk.harvest(**data)


def test_ledger_contains_no_text(desk):
    desk.put("data/labelled/a.csv", "text,label\nmy secret parcel,delivery\nthe invoice is wrong,delivery\n")
    write_record(desk.root / LEDGER, Ledger().plus(desk.harvest().entries))
    content = (desk.root / LEDGER).read_text()
    assert "a.csv, line 3" in content
    assert "secret" not in content
    assert "invoice" not in content


def test_long_file_is_read_and_written_in_batches(desk):
    rows = [f"ticket {number % 23_000},billing" for number in range(25_000)]
    desk.put("data/labelled/a.csv", "\n".join(["text,label", *rows]))
    desk.put("data/labelled/b.csv", "text,label\nthe last row,delivery\n")
    harvest = desk.harvest()
    assert harvest.entries[0].counts == "23,001 new, 2,000 duplicate"
    texts = [text for text, _ in desk.rows(harvest)]
    assert texts == [*(f"ticket {number}" for number in range(23_000)), "the last row"]
    metadata = pq.read_metadata(desk.root / harvest.batches[0])
    assert [metadata.row_group(group).num_rows for group in range(3)] == [10_000, 10_000, 3_001]
