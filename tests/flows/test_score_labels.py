"""Texts to label, and texts of late labels, from what flow ``score`` leaves behind."""

import csv

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from flows.score import score
from tests.flows.conftest import UNLIKE, tickets
from tests.params import write_params
from tuneline.cli import app
from tuneline.predict.scored import find_texts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_scored_texts_are_queued_and_found_by_their_ids(served, toy, promoted, put, monkeypatch):
    texts = [*tickets(20), *tickets(3, greeting=UNLIKE)]
    put("mail.csv", [f"{number},{text}" for number, text in enumerate(texts)], column="id,text")
    put("without-id.jsonl", ['{"text": "please help w1"}'], column='{"text": "please help w2"}')
    state = score(return_state=True)
    assert state.is_completed(), state.message

    write_params(toy.root, data={"source": "files", "text_columns": ["text"], "label_column": "queue"})
    found = find_texts(toy.root, toy.root / "data/scored", "id", pa.array(["21", "7", "nobody's"]))
    assert found.to_pylist() == [{"id": "21", "text": texts[21]}, {"id": "7", "text": texts[7]}]

    monkeypatch.chdir(toy.root)
    done = CliRunner().invoke(app, ["labels", "queue", "--id", "id", "--rows", "10"])
    assert done.exit_code == 0, done.output
    assert "left out: data/archive/without-id.jsonl: no row has 'text' and 'id'" in done.output
    with (toy.root / "reports/labels/queue.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert all(texts[int(row["id"])] == row["text"] for row in rows)
