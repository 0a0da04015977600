"""``tuneline labels queue``, where a row can have several labels."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.params import write_params
from tests.tuneline.scored_files import write_scored
from tuneline.cli import app
from tuneline.params.loading import load_params
from tuneline.readers.formats import data_input
from tuneline.readers.labelled import LABEL, LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRows
from tuneline.readers.tables import open_table
from tuneline.tasks import unnamed_task

NAMES = ("billing", "parcel")
QUEUE = Path("reports/labels/queue.csv")
SURE = [0.95, 0.02]
UNSURE = [0.9, 0.45]
LAYOUTS = {
    "separated": {"layout": "separated", "separator": ";"},
    "lists": {"layout": "lists"},
    "columns": {"layout": "columns", "columns": list(NAMES)},
    "rows": {"layout": "rows"},
}


@pytest.fixture(params=LAYOUTS, autouse=True)
def project(request, tmp_path, monkeypatch) -> None:
    """Write the parameters and a scored file, with the labels in a layout."""
    monkeypatch.chdir(tmp_path)
    data = {
        "source": "files",
        "path": "mail",
        "text_columns": ["text"],
        "label_column": "topics",
        "task": "multilabel",
        "label_sets": LAYOUTS[request.param],
    }
    write_params(tmp_path, data=data)
    folder = tmp_path / "data/source/mail"
    folder.mkdir(parents=True)
    labels = {
        "separated": "text,topics\nknown one,billing;parcel\nknown two,\nopen one,?\n",
        "lists": "text,topics\nknown one,\"['billing', 'parcel']\"\nknown two,[]\nopen one,?\n",
        "columns": "text,billing,parcel\nknown one,1,1\nknown two,0,0\nopen one,?,?\n",
        "rows": "text,topics\nknown one,billing\nknown one,parcel\nknown two,\nopen one,?\n",
    }
    (folder / "train.csv").write_text(labels[request.param])
    scored = {"known one": UNSURE, "known two": UNSURE, "open one": SURE, "a doubt": UNSURE, "no doubt": SURE}
    content = "text\n" + "".join(f"{text}\n" for text in scored)
    write_scored(tmp_path, "mail.csv", content, list(scored.values()), labels=NAMES, kind="multilabel")


def run(*words: object):
    return CliRunner().invoke(app, ["labels", "queue", *map(str, words)])


def queue() -> list[dict[str, str]]:
    with QUEUE.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_label_next_to_its_threshold_comes_first_and_labelled_rows_are_left_out():
    done = run()
    assert done.exit_code == 0, done.output
    assert "2 have a label already" in done.output
    rows = queue()
    assert [row["text"] for row in rows] == ["a doubt", "open one", "no doubt"]
    assert (rows[0]["predicted"], rows[0]["probability"]) == ("billing", "0.45")
    assert rows[0]["reason"] == "uncertain: parcel 0.45, billing 0.90"


def test_rows_that_nobody_filled_in_have_no_label_and_are_not_the_empty_set():
    """As flow ``ingest`` reads the file."""
    run()
    params = load_params().data
    columns = LabelledColumns(
        ("text",), params.label_column, unnamed_task("multilabel"), sparse=True, sets=params.label_sets
    )
    source = data_input(QUEUE, params.files)
    with open_table(source) as table:
        batches = list(labelled_rows(table, columns, BadRows(table.name, "line", STOP)))
    assert [label for batch in batches for label in batch[LABEL].to_pylist()] == [None, None, None]


def test_filled_in_queue_is_not_replaced_and_an_open_one_is():
    run()
    assert run().exit_code == 0, "nothing is filled in"
    column = load_params().data.label_columns[-1]
    rows = queue()
    rows[0][column] = "1"
    with QUEUE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = run()
    assert done.exit_code != 0
    assert "has 1 labels" in done.output + done.stderr


def test_thresholds_of_the_model_that_was_trained_here_decide_what_is_uncertain():
    folder = Path("models/classifier")
    folder.mkdir(parents=True)
    decisions = {"thresholds": {"billing": 0.94, "parcel": 0.2}, "at_least_one": False}
    (folder / "config.json").write_text(json.dumps({"decisions": decisions}))
    run()
    assert queue()[0]["text"] in ("no doubt", "open one")
    assert queue()[0]["reason"] == "uncertain: billing 0.95, parcel 0.02"
