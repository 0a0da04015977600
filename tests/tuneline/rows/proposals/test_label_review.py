"""``tuneline labels review``: the labels that are probably wrong."""

import csv
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.params import write_params
from tuneline.cli import app
from tuneline.core.params.loading import load_params
from tuneline.core.stage.tables import write_table
from tuneline.judge.metrics.predictions import Predictions, write_predictions
from tuneline.model.tasks import Classification, Multilabel, Regression
from tuneline.model.tasks.columns import raw_schema
from tuneline.rows.proposals.label_review import review_labels
from tuneline.rows.splits.corrections import row_keys

REVIEW = Path("reports/labels/review.csv")
TOPICS = {
    "billing": "invoice refund payment card charged".split(),
    "parcel": "courier late delivery box address".split(),
}
FILLERS = "please help me with this today thanks a lot for your quick answer".split()
SPLITS = {"train": slice(0, 200), "validation": slice(200, 250), "test": slice(250, 300)}
WRONG = (7, 80, 290)
MORE = {
    "classification": {},
    "multilabel": {
        "data": {"task": "multilabel", "label_sets": {"layout": "separated", "separator": "|"}},
    },
    "regression": {
        "data": {"task": "regression"},
        "train": {"metric": "pearson"},
        "evaluate": {"metrics": []},
    },
}


@pytest.fixture(autouse=True)
def in_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def review(*words: object) -> Result:
    return CliRunner().invoke(app, ["labels", "review", *map(str, words)])


def read(path: Path = REVIEW) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_data(kind: str = "classification", column: str = "text", unlabelled: str = "") -> list[str]:
    """Write 300 texts that name their class with two words, three of them with a wrong label."""
    generator = random.Random(0)
    texts = []
    labels = []
    for row in range(300):
        words = generator.sample(list(TOPICS.values())[row % 2], 2) + generator.sample(FILLERS, 5)
        generator.shuffle(words)
        texts.append(" ".join(words))
        label = row % 2 if row not in WRONG else 1 - row % 2
        labels.append(
            {"classification": label, "multilabel": [label], "regression": 9.0 * (row in WRONG)}[kind]
        )
    texts[7] = f"={texts[7]}"  # a formula, for a spreadsheet

    task = {"classification": Classification, "multilabel": Multilabel}.get(kind, lambda _: Regression())(
        tuple(TOPICS)
    )
    Path("data/raw").mkdir(parents=True)
    for split, part in SPLITS.items():
        given = labels[part] if split != unlabelled else [-1] * 50
        rows = {column: texts[part], "labels": given, "idx": range(len(given))}
        write_table(pa.table(rows, schema=raw_schema([column], task)), Path(f"data/raw/{split}.parquet"))
    more = MORE[kind]
    data = {"source": "files", "path": "mail", "text_columns": [column], "label_column": "queue"}
    write_params(Path(), **{**more, "data": data | more.get("data", {})})
    return texts


@pytest.mark.parametrize(
    ("kind", "label", "proposed"),
    [
        ("classification", "billing", "parcel"),
        ("multilabel", "billing", "parcel"),
        ("regression", "9.0", "0"),
    ],
)
def test_wrong_labels_of_all_splits_come_first_with_what_a_person_needs(kind, label, proposed):
    texts = write_data(kind)
    done = review("--rows", 3)
    assert done.exit_code == 0, done.output
    assert "of 300 rows" in done.output
    assert "tuneline labels apply reports/labels/review.csv" in done.output
    rows = {row["key"]: row for row in read()}
    assert list(rows)
    assert set(rows) == set(row_keys([pa.array([texts[row] for row in WRONG])]).to_pylist())
    seventh = rows[row_keys([pa.array([texts[7]])])[0].as_py()]
    assert (seventh["text"], seventh["split"], seventh["place"]) == (f" {texts[7]}", "train", "train row 7")
    assert (seventh["label"], seventh["correct"]) == (label, "")
    assert seventh["proposed"].startswith(proposed) or abs(float(seventh["proposed"])) < 3
    assert 0.5 < float(seventh["confidence"]) <= 1


def test_trained_model_is_asked_about_rows_that_it_was_not_trained_on():
    write_data()
    before = {suspect.place for suspect in review_labels(load_params(), 300)[0]}
    labels = np.array([row % 2 for row in range(250, 300)])
    labels[40] = 1 - labels[40]
    logits = np.where(np.arange(2) == labels[:, None], 9.0, -9.0).astype(np.float32)
    logits[3] = -logits[3]
    Path("reports").mkdir()
    predictions = Predictions.of_logits(labels, logits, Classification(tuple(TOPICS)))
    write_predictions(Path("reports/predictions.parquet"), predictions)
    after = {suspect.place for suspect in review_labels(load_params(), 300)[0]}
    assert "test row 40" in before
    assert after - before == {"test row 3"}
    assert "test row 40" not in after, "it gives the label that is there"


def test_corrections_of_a_person_are_not_replaced():
    write_data()
    assert review().exit_code == 0
    assert review().exit_code == 0, "without corrections in it"
    content = REVIEW.read_bytes().splitlines(keepends=True)
    REVIEW.write_bytes(b"".join([content[0], content[1].rstrip() + b"parcel\r\n", *content[2:]]))
    done = review()
    assert done.exit_code == 1
    assert "has 1 labels, which would be lost" in done.output
    assert review("--force").exit_code == 0
