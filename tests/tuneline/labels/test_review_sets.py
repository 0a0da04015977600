"""``tuneline labels review`` and ``apply``, where a row can have several labels."""

import csv
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.params import write_params
from tuneline.analysis.corrections import Corrections, row_keys
from tuneline.cli import app
from tuneline.core.tables import read_table, write_table
from tuneline.labels.confident_learning import likely_errors, likely_set_errors
from tuneline.labels.review import Folds, LabelledRows
from tuneline.params.loading import load_params
from tuneline.tasks import Multilabel
from tuneline.tasks.schemas import raw_schema

NAMES = ("billing", "parcel", "urgent")
WORDS = {
    "billing": "invoice refund payment card charged".split(),
    "parcel": "courier late delivery box address".split(),
    "urgent": "now immediately asap today quickly".split(),
}
FILLERS = "please help me with this thanks a lot for your answer friend".split()
WRONG = {7: [0], 80: [], 290: [0, 1, 2]}
"""Wrong ids of labels, by row."""
REVIEW = Path("reports/labels/review.csv")


@pytest.fixture(autouse=True)
def in_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words: object):
    return CliRunner().invoke(app, ["labels", *map(str, words)])


@pytest.fixture
def tickets() -> tuple[list[str], list[list[int]]]:
    """Write 400 texts with two words of each of their labels, some of which are wrong."""
    generator = random.Random(0)
    texts = []
    labels = []
    for _ in range(400):
        ids = [label for label in range(3) if generator.random() < 0.4]
        words = generator.sample(FILLERS, 5)
        for label in ids:
            words += generator.sample(WORDS[NAMES[label]], 2)
        generator.shuffle(words)
        texts.append(" ".join(words))
        labels.append(ids)
    shown = [WRONG.get(row, ids) for row, ids in enumerate(labels)]

    Path("data/raw").mkdir(parents=True)
    for split, start, stop in (("train", 0, 250), ("validation", 250, 320), ("test", 320, 400)):
        rows = {"text": texts[start:stop], "labels": shown[start:stop], "idx": range(stop - start)}
        write_table(
            pa.table(rows, schema=raw_schema(["text"], Multilabel(NAMES))), Path(f"data/raw/{split}.parquet")
        )
    write_params(
        Path(),
        data={
            "source": "files",
            "text_columns": ["text"],
            "label_column": "topics",
            "task": "multilabel",
            "label_sets": {"layout": "separated", "separator": "|"},
        },
    )
    return texts, labels


def read() -> list[dict[str, str]]:
    with REVIEW.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def text_of(ids: list[int]) -> str:
    return ";".join(NAMES[label] for label in ids) or "(none)"


def key(text: str) -> str:
    return row_keys([pa.array([text])])[0].as_py()


def test_planted_errors_come_with_the_sets_they_should_be(tickets):
    texts, labels = tickets
    done = run("review")
    assert done.exit_code == 0, done.output
    assert "Macro F1 of the out-of-fold predictions: 0.9" in done.output
    by_key = {row["key"]: row for row in read()}
    for row, wrong in WRONG.items():
        suspect = by_key[key(texts[row])]
        assert suspect["label"] == text_of(wrong)
        assert suspect["proposed"] == text_of(labels[row])
        assert 0.5 < float(suspect["confidence"]) <= 1
    assert len(by_key) < 40


def test_sets_without_a_doubt_give_no_file(tickets):
    for split in ("train", "validation", "test"):
        path = Path(f"data/raw/{split}.parquet")
        table = read_table(path)
        certain = [[row % 2] for row in range(len(table))]
        texts = [f"{'invoice card' if row % 2 else 'parcel courier'} {row}" for row in range(len(table))]
        columns = {"text": texts, "labels": certain, "idx": range(len(table))}
        write_table(pa.table(columns, schema=table.schema), path)
    done = run("review")
    assert done.exit_code == 0, done.output
    assert "0 of 400 rows have a doubtful label" in done.output
    assert not REVIEW.exists()


def test_filled_in_sets_become_corrections_in_any_order_of_their_names(tickets):
    texts, _ = tickets
    run("review")
    rows = read()
    answers = {key(texts[7]): " urgent ;billing", key(texts[80]): "parcel", key(texts[290]): "(none)"}
    for row in rows:
        row["correct"] = answers.get(row["key"], "")
    write(rows)
    done = run("apply", REVIEW)
    assert done.exit_code == 0, done.output
    assert "3 labels corrected" in done.output
    corrections = {row["key"]: (row["before"], row["after"]) for row in Corrections.read().labels.to_pylist()}
    assert corrections == {
        key(texts[7]): ("billing", "billing;urgent"),
        key(texts[80]): ("(none)", "parcel"),
        key(texts[290]): ("billing;parcel;urgent", "(none)"),
    }
    assert "0 labels corrected, 3 were already" in run("apply", REVIEW).output


def write(rows: list[dict[str, str]]) -> None:
    with REVIEW.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_unknown_name_in_a_set_is_named_with_line_and_column(tickets):
    run("review")
    rows = read()
    rows[0]["correct"] = "billing;parcle"
    write(rows)
    done = run("apply", REVIEW)
    assert done.exit_code != 0
    assert "line 2, column 'correct': 'parcle' is not one of" in done.output + done.stderr
    assert not Corrections.read().labels.num_rows


def test_folds_have_equal_texts_together_and_divide_each_set(tickets):
    rows = LabelledRows.read(load_params().data)
    folds = Folds.of(rows, 4)
    codes = rows.schema.codes(rows.labels)
    for code in np.unique(codes):
        counts = np.bincount(folds.positions[codes == code] % 4, minlength=4)
        assert np.ptp(counts) <= 2


def test_errors_of_one_label_are_those_of_a_problem_of_two_classes():
    generator = np.random.default_rng(0)
    true = generator.random((500, 2)) < 0.3
    labels = true.astype(np.int8)
    labels[:10, 1] = 1 - labels[:10, 1]
    probabilities = np.where(true, 0.9, 0.1) + generator.normal(0, 0.02, true.shape)
    rows, is_wrong = likely_set_errors(labels, probabilities)
    expected = likely_errors(
        labels[:, 1].astype(np.int64), np.stack([1 - probabilities[:, 1], probabilities[:, 1]], axis=1)
    )
    assert sorted(rows) == sorted(expected) == list(range(10))
    assert not is_wrong[:, 0].any()
    assert is_wrong[:10, 1].all()
