"""``tuneline predict --why``: the words without which the answer for a row changes most."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.tuneline.cli.predict.conftest import lines_of
from tuneline.serve.columns import WHY_WORDS
from tuneline.serve.occlusion import largest_effects, word_effects
from tuneline.serve.text_classifier import TextClassifier

ROWS = [
    {"subject": "the parcel", "body": "is late again, my refund was fine"},
    {"subject": "order", "body": ""},
    {"subject": "", "body": "invoice payment"},
]
KEYS = ["word", "effect", "label", "column", "start", "end"]


@pytest.fixture
def rows(predict):
    """Write the rows into the folder in which the command runs."""
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def test_words_are_added_to_each_prediction_and_change_nothing_else(rows, predict, classification):
    done = predict("rows.jsonl", "--why")
    assert done.exit_code == 0, done.output
    lines = lines_of(done.stdout)
    model = TextClassifier.load(classification / "models/onnx")
    for row, line in zip(ROWS, lines, strict=True):
        effects = largest_effects(word_effects(model, (row["subject"], row["body"])), WHY_WORDS)
        assert [list(word) for word in line["why"]] == [KEYS] * len(effects)
        for word, effect in zip(line["why"], effects, strict=True):
            assert word["effect"] == pytest.approx(effect.effect, abs=2e-6)
            assert row[word["column"]][word["start"] : word["end"]] == word["word"]
            assert word["label"] == line["label"]
    assert len(lines[0].pop("why")) == WHY_WORDS
    assert lines[1].pop("why") == [], "no row is without text"
    assert len(lines[2].pop("why")) == 2
    assert lines == lines_of(predict("rows.jsonl").stdout)


def test_words_are_one_cell_of_csv_and_a_list_in_parquet(rows, predict):
    for name in ("out.csv", "out.parquet", "out.jsonl"):
        done = predict("rows.jsonl", "--why", "--keep", "body", "-o", name)
        assert done.exit_code == 0, done.output
    expected = [line["why"] for line in lines_of(Path("out.jsonl").read_text())]

    with Path("out.csv").open(newline="") as file:
        cells = [record["why"] for record in csv.DictReader(file)]
    assert cells[1] == ""
    assert [part.split(" ")[0] for part in cells[0].split("; ")] == [word["word"] for word in expected[0]]
    numbers = [float(part.split(" ")[1]) for part in cells[0].split("; ")]
    assert numbers == pytest.approx([word["effect"] for word in expected[0]], rel=0.01)

    words = pq.read_table("out.parquet")["why"].to_pylist()
    assert [[list(word) for word in row] for row in words] == [[KEYS] * len(row) for row in expected]
    assert words[0][0]["word"] == expected[0][0]["word"]
