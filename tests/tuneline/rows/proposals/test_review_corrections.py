"""``tuneline labels apply``: the corrections of a filled-in review, to data/corrections/labels.csv."""

import csv
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.params import write_params
from tests.shards import into_shards
from tuneline.cli import app
from tuneline.core.params.loading import load_params
from tuneline.core.paths import RAW, SPLITS, split_file
from tuneline.core.stage.tables import split_files, write_table
from tuneline.model.tasks import task_with_names
from tuneline.model.tasks.columns import raw_schema
from tuneline.rows.proposals.label_review import Suspect, write_review
from tuneline.rows.splits.corrections import Corrections, label_file, row_keys

NAMES = ("billing", "parcel", "returns")
TRAIN = [
    ("my invoice is wrong", 0),
    ("where is it?", 0),
    ("=late again\nand again", 2),
    ("refund", 2),
    ("refund", 0),
]
TEST = [("broken", 1), ("where is it?", 0)]
Rows = list[tuple[str, str | float]]


def write_raw(splits: dict[str, list[tuple]], names: tuple[str, ...] | None = NAMES) -> None:
    RAW.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        for path in split_files(RAW, split):
            path.unlink()
        texts, labels = zip(*rows, strict=True)
        columns = {"text": texts, "labels": labels, "idx": range(len(rows))}
        write_table(
            pa.table(
                {name: list(values) for name, values in columns.items()},
                raw_schema(["text"], task_with_names(names)),
            ),
            split_file(RAW, split),
        )
    into_shards(RAW, rows=2)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run the command in a project with data."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, data={"source": "files", "text_columns": ["text"], "label_column": "queue"})
    write_raw({"train": TRAIN, "validation": TEST, "test": TEST})

    def run(*words: object) -> Result:
        return CliRunner().invoke(app, ["labels", "apply", *map(str, words)])

    return run


def key(text: str) -> str:
    return row_keys([pa.array([text])])[0].as_py()


def review(*rows: tuple[str, str, str], delimiter: str = ",", **changed: dict[str, str]) -> Path:
    """Write a review of texts and their labels, and fill in the right ones."""
    path = Path("review.csv")
    suspects = [Suspect(key(text), "train", (text,), label, "", 0.9, "") for text, label, _ in rows]
    write_review(path, load_params().data, suspects)
    with path.open(encoding="utf-8-sig", newline="") as file:
        filled = list(csv.DictReader(file))
    for row, (*_, correct) in zip(filled, rows, strict=True):
        row |= {"correct": correct, **changed}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(filled[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(filled)
    return path


def corrected() -> dict[str, tuple[str, str]]:
    """Return the label before and after of each corrected text."""
    texts = {key(text): text for text, _ in [*TRAIN, *TEST]}
    return {texts[one["key"]]: (one["before"], one["after"]) for one in Corrections.read().labels.to_pylist()}


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_filled_in_rows_become_corrections_once(run, delimiter):
    path = review(
        ("my invoice is wrong", "billing", "returns"),
        ("where is it?", "billing", " parcel "),
        ("=late again\nand again", "returns", "parcel"),
        ("broken", "parcel", "parcel"),
        ("refund", "returns", ""),
        delimiter=delimiter,
    )
    done = run(path)
    assert done.exit_code == 0, done.output
    assert "labels.csv: labels corrected: 3." in done.output
    assert corrected() == {
        "my invoice is wrong": ("billing", "returns"),
        "where is it?": ("billing", "parcel"),
        "=late again\nand again": ("returns", "parcel"),
    }
    content = label_file().read_bytes()
    assert b"invoice" not in content, "no text of the data gets into git"
    assert "labels corrected: 0" in run(path).output
    write_raw(
        {
            "train": [
                ("my invoice is wrong", 2),
                ("where is it?", 1),
                ("=late again\nand again", 1),
                ("broken", 1),
            ]
        }
    )  # dvc repro
    assert "labels corrected: 0" in run(path).output
    assert label_file().read_bytes() == content


def test_second_correction_of_a_row_replaces_the_first(run):
    """The label before is that of the source, which the first correction has not changed."""
    run(review(("broken", "parcel", "billing")))
    splits = {"train": TRAIN, "validation": TEST, "test": [("broken", 0)]}
    write_raw({**splits, "validation": [("broken", 0)]})
    second = review(("broken", "billing", "returns"))
    assert "labels corrected: 1" in run(second).output
    assert corrected() == {"broken": ("parcel", "returns")}
    assert "labels corrected: 0" in run(second).output
    write_raw({**splits, "validation": [("broken", 2)], "test": [("broken", 2)]})
    assert run(review(("broken", "returns", "parcel"))).exit_code == 0
    assert not label_file().exists(), "the label of the source is right"


def test_rows_with_equal_texts_and_other_labels_are_corrected_one_after_the_other(run):
    splits = {"validation": TEST, "test": TEST}
    write_raw({**splits, "train": [("refund", 1), ("refund", 0)]})
    run(review(("refund", "parcel", "returns")))
    write_raw({**splits, "train": [("refund", 2), ("refund", 0)]})  # dvc repro
    second = review(("refund", "billing", "returns"))
    assert "labels corrected: 1" in run(second).output
    assert "labels corrected: 0" in run(second).output
    entries = Corrections.read().labels.to_pylist()
    assert sorted((one["before"], one["after"]) for one in entries) == [
        ("billing", "returns"),
        ("parcel", "returns"),
    ]


@pytest.mark.parametrize(
    ("rows", "changed", "message"),
    [
        (
            [("broken", "parcel", "biling")],
            {},
            "correct: 'biling' is not one of 'billing', 'parcel', 'returns'; the nearest is",
        ),
        (
            [("broken", "parcel", "billing")],
            {"key": key("refund")},
            "text: 'broken' is not the text of this key. Sort all columns",
        ),
        (
            [("broken", "returns", "billing")],
            {},
            "label: 'returns', but 'parcel' in data/raw. Write it again.",
        ),
        (
            [
                ("refund", "returns", "billing"),
                ("broken", "parcel", "billing"),
                ("refund", "returns", "parcel"),
            ],
            {},
            "row 3, correct: 'parcel', but another row with these texts has 'billing'.",
        ),
    ],
    ids=["unknown class", "other row", "stale label", "two corrections"],
)
def test_mistake_is_named_by_line_and_column(rows, changed, message, run):
    path = review(*rows, **changed)
    done = run(path)
    assert done.exit_code == 65
    assert message in done.output
    assert "review.csv" in done.output
    assert not label_file().exists()


def test_numbers_are_corrected(run, tmp_path):
    data = {"source": "files", "text_columns": ["text"], "label_column": "queue", "task": "regression"}
    write_params(tmp_path, data=data, train={"metric": "pearson"}, evaluate={"metrics": []})
    write_raw({split: [("good", 0.1), ("bad", 2.5)] for split in SPLITS}, None)
    assert run(review(("good", "0.10000000149011612", "4,5"))).exit_code == 65
    done = run(review(("good", "0.10000000149011612", "4.50"), ("bad", "2.5", "2.5")))
    assert done.exit_code == 0, done.output
    assert [(one["before"], one["after"]) for one in Corrections.read().labels.to_pylist()] == [
        ("0.1", "4.5")
    ]
