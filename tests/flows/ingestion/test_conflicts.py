"""Rows that contradict the data are listed with the row of the data, in the review that ``tuneline labels
apply`` reads."""

import csv

import pyarrow as pa

from flows.ingestion.conflicts import Contradiction, write_contradictions
from tests.flows.ingestion.test_harvest import Desk, desk
from tests.params import params
from tuneline.analysis.corrections import row_keys
from tuneline.labels.label_review import Suspect, read_filled

__all__ = ["desk"]
"""A fixture."""


def known(harvest) -> list[tuple]:
    return [(one.place, one.label, one.row_of_data) for one in harvest.contradictions]


def test_row_is_found_in_the_data_by_its_texts_and_by_its_key(desk: Desk):
    desk.put(
        "data/source/train.csv",
        "id,text,label\n1,my parcel is late,delivery\n2,the invoice is wrong,billing\n",
    )
    desk.put("data/source/validation.csv", "id,text,label\n3,where is my parcel,delivery\n")
    desk.put("data/source/test.csv", "id,text,label\n4,where is my invoice,billing\n")
    lines = (
        "id,text,label\n9,My PARCEL  is late,billing\n2,another text,delivery\n8,where is my parcel,billing\n"
    )
    desk.put("data/labelled/a.csv", lines)
    harvest = desk.harvest(key="id")
    assert known(harvest) == [
        ("a.csv, line 2", "billing", (("my parcel is late",), "delivery")),
        ("a.csv, line 3", "delivery", (("the invoice is wrong",), "billing")),
        ("a.csv, line 4", "billing", (("where is my parcel",), "delivery")),
    ]
    assert (harvest.conflicts, harvest.conflict_share) == (3, 1.0)


def test_row_that_contradicts_another_new_row_is_listed_with_that(desk: Desk):
    desk.put("data/labelled/a.csv", "text,label\nnew,billing\n")
    desk.put("data/labelled/b.csv", "text,label\nnew,delivery\n")
    harvest = desk.harvest()
    assert known(harvest) == [("b.csv, line 2", "delivery", (("new",), "billing"))]
    assert harvest.conflict_share == 0.5


def test_identity_is_that_of_the_rows_and_not_of_their_order_or_file(desk: Desk):
    def identity(name: str, *rows: str) -> str | None:
        desk.put(f"data/labelled/{name}", "\n".join(["text,label", *rows]))
        (entry,) = desk.harvest().entries
        (desk.root / "data/labelled" / name).unlink()
        return entry.contradictions

    late, wrong = "my parcel is late,billing", "the invoice is wrong,delivery"
    assert identity("a.csv", late, wrong) == identity("b.csv", wrong, late, late)
    assert identity("a.csv", late) != identity("a.csv", wrong)
    assert identity("a.csv", "quite new,billing") is None


def test_review_can_be_filled_in_and_read_again(tmp_path):
    """The data have class ids; people see names."""
    data = params(
        data={
            "source": "files",
            "text_columns": ["text"],
            "label_column": "label",
            "label_names": ["billing", "delivery"],
        }
    ).data
    write_contradictions(
        tmp_path / "made" / "review.csv",
        data,
        [Contradiction("crm", "a.csv, line 2", ("=X",), "0", (("=x",), "1"))],
    )
    with (tmp_path / "made" / "review.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["label"], row["proposed"], row["place"]) == ("delivery", "billing", "crm: a.csv, line 2")
    row["correct"] = row["proposed"]
    with (tmp_path / "filled.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    key = row_keys([pa.array(["=x"])])[0].as_py()
    suspect = Suspect(key, "", (" =x",), "delivery", "billing", None, "crm: a.csv, line 2")
    assert read_filled(tmp_path / "filled.csv", data) == [(1, suspect, "billing")]
