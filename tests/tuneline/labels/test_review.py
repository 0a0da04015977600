"""``tuneline labels review``: the labels that are probably wrong."""

import csv
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.conftest import ROOT
from tests.params import write_params
from tests.small_pipeline import write_pipeline
from tuneline.analysis.corrections import row_keys
from tuneline.cli import app
from tuneline.core.records import Timing
from tuneline.core.tables import write_table
from tuneline.core.written_records import write_record
from tuneline.labels.review import Folds, LabelledRows, choose_model, trust
from tuneline.params.loading import load_params
from tuneline.tasks import task_with_names
from tuneline.tasks.schemas import raw_schema

REVIEW = Path("reports/labels/review.csv")
TOPICS = {
    "billing": "invoice refund payment card charged".split(),
    "parcel": "courier late delivery box address".split(),
}
FILLERS = "please help me with this today thanks a lot for your quick answer".split()


@pytest.fixture(autouse=True)
def in_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def review(*words: object) -> Result:
    return CliRunner().invoke(app, ["labels", "review", *map(str, words)])


def read(path: Path = REVIEW) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def tickets(rows: int = 300, wrong: tuple[int, ...] = (7, 80, 150)) -> tuple[list[str], list[int]]:
    """Return texts that name their class with two words, and labels, some of them wrong."""
    generator = random.Random(0)
    labels = [row % 2 for row in range(rows)]
    texts = []
    for label in labels:
        words = generator.sample(list(TOPICS.values())[label], 2) + generator.sample(FILLERS, 5)
        generator.shuffle(words)
        texts.append(" ".join(words))
    return texts, [1 - label if row in wrong else label for row, label in enumerate(labels)]


def write_data(
    texts: list[str],
    labels: list,
    names: tuple[str, ...] | None = tuple(TOPICS),
    column: str = "text",
    unlabelled=(),
) -> None:
    """Write the raw splits: two thirds of the rows for training, and one sixth for each of the others."""
    schema = raw_schema([column], task_with_names(names))
    Path("data/raw").mkdir(parents=True)
    cuts = [0, len(texts) * 4 // 6, len(texts) * 5 // 6, len(texts)]
    for split, start, stop in zip(("train", "validation", "test"), cuts, cuts[1:], strict=False):
        given = [-1] * (stop - start) if split in unlabelled else labels[start:stop]
        rows = {column: texts[start:stop], "labels": given, "idx": range(stop - start)}
        write_table(pa.table(rows, schema=schema), Path(f"data/raw/{split}.parquet"))
    task = {"task": "regression"} if names is None else {}
    more = {"train": {"metric": "pearson"}, "evaluate": {"metrics": []}} if names is None else {}
    write_params(
        Path(),
        data={"source": "files", "path": "mail", "text_columns": [column], "label_column": "queue", **task},
        **more,
    )


def test_wrong_labels_of_all_splits_come_first_with_what_a_person_needs():
    texts, labels = tickets(wrong=(7, 80, 290))
    texts[7] = f"={texts[7]}"  # a formula, for a spreadsheet
    texts[81] = f"{texts[80]} really"
    labels[81] = 1 - labels[80]
    write_data(texts, labels)
    done = review("--rows", 3)
    assert done.exit_code == 0, done.output
    rows = read()
    assert list(rows[0]) == ["key", "split", "text", "label", "proposed", "confidence", "similar", "correct"]
    assert "of 300 rows have a doubtful label; accuracy of the out-of-fold predictions: 0.9" in done.output
    assert "tuneline labels apply reports/labels/review.csv" in done.output
    by_key = {row["key"]: row for row in rows}
    seventh, near, tested = (
        by_key[key] for key in row_keys([pa.array([texts[row] for row in (7, 80, 290)])]).to_pylist()
    )
    assert (seventh["text"], seventh["label"], seventh["proposed"], seventh["correct"]) == (
        f" {texts[7]}",
        "billing",
        "parcel",
        "",
    )
    assert near["similar"].startswith("train row 81: billing (")
    assert tested["split"] == "test"
    assert 0.5 < float(seventh["confidence"]) <= 1


def test_corrections_of_a_person_are_not_replaced():
    write_data(*tickets())
    assert review().exit_code == 0
    assert review().exit_code == 0, "without corrections in it"
    content = REVIEW.read_bytes().splitlines(keepends=True)
    REVIEW.write_bytes(b"".join([content[0], content[1].rstrip() + b"parcel\r\n", *content[2:]]))
    done = review()
    assert done.exit_code == 1
    assert "has 1 labels, which would be lost" in done.output
    assert "Run `tuneline labels apply reports/labels/review.csv`" in done.output


def test_column_names_and_splits_without_labels():
    write_data(*tickets(), column="label", unlabelled=("test",))
    done = review()
    assert "of 250 rows have a doubtful label" in done.output, done.output
    assert list(read()[0]) == [
        "key",
        "split",
        "label",
        "label_",
        "proposed",
        "confidence",
        "similar",
        "correct",
    ]


def test_numbers_are_ranked_by_their_residuals():
    texts, _ = tickets()
    numbers = [float("invoice" in text) + float("refund" in text) for text in texts]
    numbers[5], numbers[200] = 9.5, -6.0
    write_data(texts, numbers, names=None)
    done = review()
    assert done.exit_code == 0, done.output
    rows = read()
    assert [(row["label"], row["split"]) for row in rows[:2]] == [("9.5", "train"), ("-6.0", "validation")]
    assert abs(float(rows[0]["proposed"])) < 3
    assert float(rows[0]["confidence"]) > 0.99


def test_folds_keep_equal_texts_together_and_divide_each_class():
    texts, labels = tickets()
    texts[4], texts[202] = texts[0].upper(), f" {texts[0]} "
    write_data(texts, labels)
    rows = LabelledRows.read(load_params().data)
    folds = Folds.of(rows, 5)
    held_out = [folds.held_out(fold) for fold in range(5)]
    assert sorted(np.concatenate(held_out).tolist()) == list(range(300))
    assert any({0, 4, 202} <= set(rows.tolist()) for rows in held_out)
    for fold in range(5):
        assert abs(np.bincount(rows.labels[held_out[fold]])[0] - 30) <= 3
        train, validation = folds.others(fold)
        assert 15 <= len(validation) <= 40
        assert sorted([*train, *validation, *held_out[fold]]) == list(range(300))


def write_results(accuracy: float, over_tfidf: float, seconds: float) -> None:
    """Write the last evaluation and the time of the last training."""
    Path("metrics").mkdir()
    metrics = {"accuracy": accuracy, "tfidf_accuracy": 0.7, "accuracy_over_tfidf_low": over_tfidf}
    Path("metrics/evaluate.json").write_text(json.dumps(metrics))
    write_record(Path("reports/timing/train.json"), Timing(outs="", seconds=seconds))


@pytest.mark.parametrize(
    ("over_tfidf", "seconds", "model", "reason"),
    [
        (0.02, 30.0, "train", "accuracy 0.800 and 0.700), so it is trained once per fold, in about 90 s"),
        (0.02, 3_000.0, "linear", "--model train trains it once per fold, in about 150 minutes"),
        (-0.01, 30.0, "linear", "a quick look"),
    ],
)
def test_the_better_model_reviews_where_that_is_quick(over_tfidf, seconds, model, reason):
    write_results(0.8, over_tfidf, seconds)
    chosen, why = choose_model(folds=3)
    assert chosen == model
    assert reason in why


def test_linear_model_reviews_before_the_first_evaluation():
    assert choose_model(folds=3)[0] == "linear"


@pytest.mark.parametrize(
    ("agreement", "expected"),
    [(0.95, "for 50 rows in all: most of the first doubts"), (0.72, "often wrong themselves")],
)
def test_review_says_how_far_to_trust_it(agreement, expected):
    assert expected in trust(rows=1_000, accuracy=agreement)


def test_missing_data_is_explained():
    write_params(Path())
    assert "The stage 'download' writes it" in review().output
    write_data(*tickets())
    done = review("--model", "train")
    assert done.exit_code == 1
    assert "models/base/source.json is missing" in done.output
    write_params(Path(), data={"text_columns": ["body"]})
    assert "train.parquet has the text columns ['text'], and data.text_columns is ['body']" in review().output


@pytest.mark.slow
def test_interrupted_folds_are_not_trained_again():
    write_pipeline(Path(), changes={"train.epochs": 1})
    Path("conf").symlink_to(ROOT / "conf")
    command = [
        sys.executable,
        "-c",
        "from tuneline.cli import app; app()",
        "labels",
        "review",
        "--model",
        "train",
        "--folds",
        "2",
    ]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 180
    while not list(Path("reports/labels/folds").glob("*/fold-1.npy")):
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (
        "Another `tuneline labels review` trains folds"
        in subprocess.run(command, capture_output=True, text=True, check=False).stderr
    )
    first.send_signal(signal.SIGINT)
    printed = first.communicate(timeout=120)[0]
    assert first.returncode == 130, printed
    assert "Fold 2 of 2 is incomplete: the same command resumes it" in printed
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Fold 1 of 2:" not in again.stdout
    assert "Fold 2 of 2: 63 rows to train on, 7 to validate, 70 to predict" in again.stdout
    assert "of 140 rows have a doubtful label" in again.stdout
    assert not [path for path in Path("reports/labels/folds").glob("*/*") if path.is_dir()], (
        "only the logits are kept"
    )
    third = subprocess.run([*command, "--force"], capture_output=True, text=True, check=True)
    assert "Fold" not in third.stdout
