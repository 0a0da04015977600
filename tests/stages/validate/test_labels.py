"""Faults of labels that a person would see: planted in the sample tickets and in MRPC, they are found; the
data itself passes."""

import re
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from stages.download.sample import QUEUES, write_tickets
from stages.validate.labels import LabelFindings, examine_labels
from stages.validate.raw import read_raw
from tests.stages.validate.data import params_for
from tuneline.core.tables import SplitReader, write_table
from tuneline.paths import split_file
from tuneline.tasks import Classification, Regression, task_with_names
from tuneline.tasks.schemas import raw_schema

TICKETS = task_with_names(tuple(QUEUES))
NUMBERS = Regression()


@pytest.fixture
def examine(tmp_path):
    """Return a function that examines splits, given as texts by column and labels."""

    def run(splits, schema) -> dict[str, LabelFindings]:
        columns = list(splits["train"][0])
        params = params_for(columns)
        for name, (texts, labels) in splits.items():
            path = split_file(tmp_path, name)
            write_table(
                pa.table(
                    {**texts, "labels": labels, "idx": range(len(labels))},
                    schema=raw_schema(list(texts), schema),
                ),
                path,
            )
        files = {name: SplitReader.open(tmp_path, name, "download") for name in splits}
        raw = read_raw(files, columns, schema, tmp_path / "derived", params.run)
        return examine_labels(raw, columns, schema, params.validate_)

    return run


@pytest.fixture(scope="module")
def tickets():
    written = list(write_tickets(2000, 0.03, 42))
    texts = {"subject": [ticket.subject for ticket in written], "body": [ticket.body for ticket in written]}
    return texts, np.array([QUEUES.index(ticket.queue) for ticket in written])


def flipped(labels, share, classes, seed=0):
    random = np.random.default_rng(seed)
    return np.where(
        random.random(len(labels)) < share,
        (labels + random.integers(1, classes, len(labels))) % classes,
        labels,
    )


def changed(texts, column, labels, change):
    return {**texts, column: [change(text, label) for text, label in zip(texts[column], labels, strict=True)]}


def test_tickets_can_be_learnt_and_nothing_reveals_their_queue(examine, tickets):
    columns = examine({"train": tickets}, TICKETS)["train"].columns
    assert columns["auc_low"] > 0.8
    assert columns["disagreement_low"] < 0.25
    assert columns["revealing_words"] < 0.1
    assert columns["revealing_length"] == 0


def test_shuffled_and_flipped_labels_of_tickets_are_seen(examine, tickets):
    texts, labels = tickets
    shuffled = examine({"train": (texts, np.random.default_rng(0).permutation(labels))}, TICKETS)[
        "train"
    ].columns
    assert shuffled["auc_high"] < 0.55
    noisy = examine({"train": (texts, flipped(labels, 0.3, 5))}, TICKETS)["train"].columns
    assert noisy["auc_low"] > 0.55
    assert noisy["disagreement_low"] > 0.25


def test_labels_that_mean_something_else_in_another_split_are_seen(examine, tickets):
    texts, labels = tickets
    train = {name: values[:1500] for name, values in texts.items()}, labels[:1500]
    test = {name: values[1500:] for name, values in texts.items()}
    found = examine(
        {"train": train, "validation": (test, labels[1500:]), "test": (test, (labels[1500:] + 1) % 5)},
        TICKETS,
    )
    right = examine(
        {"train": train, "validation": (test, labels[1500:]), "test": (test, labels[1500:])}, TICKETS
    )
    assert found["train"].columns == right["train"].columns
    assert found["train"].columns["auc_low"] > found["validation"].columns["auc_low"] - 0.1 > 0.6
    assert found["test"].columns["auc_high"] < 0.5
    assert (found["validation"].columns["auc_drop"] < 0.1, found["test"].columns["auc_drop"] > 0.3) == (
        True,
        True,
    )


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda text, label: f"{text} Queue: {QUEUES[label]}", "at the end: 100 % of"),
        (
            lambda text, label: f"[Web form] {text}" if label == 1 else text,
            f'“[ web”: 100 % of "{QUEUES[1]}" have it',
        ),
        (
            lambda text, label: (
                f"{('INC', 'REQ', 'CHG', 'PRB', 'TSK')[label]}{crc32(text.encode()) % 10**6} {text}"
            ),
            "“req0”: 100 % of",
        ),
    ],
    ids=["label", "template", "id"],
)
def test_label_template_or_id_in_the_text_is_named(examine, tickets, change, name):
    texts, labels = tickets
    train = examine({"train": (changed(texts, "body", labels, change), labels)}, TICKETS)["train"]
    assert train.columns["revealing_words"] > 0.99
    assert any(name in note for note in train.notes["revealing_words"]), train.notes


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (
            lambda text, label: f"{text} {text} {text}" if label == 1 else text,
            r"number of characters from \d+ to \d+: 77",
        ),
        (
            lambda text, label: f"{20260101 + 100 * label + len(text) % 28}: {text}",
            r"first number in the texts from \d+ to 202602\d\d: \d+",
        ),
    ],
    ids=["length", "month"],
)
def test_length_or_month_that_tells_the_label_is_named(examine, tickets, change, name):
    texts, labels = tickets
    train = examine({"train": (changed(texts, "body", labels, change), labels)}, TICKETS)["train"]
    assert train.columns["revealing_length"] > 0.25
    assert any(re.match(name, note) for note in train.notes["revealing_length"]), train.notes


def test_rows_sorted_by_label_are_noted_and_pass(examine, tickets):
    texts, labels = tickets
    order = np.argsort(labels, kind="stable")
    train = examine(
        {"train": ({name: [values[row] for row in order] for name, values in texts.items()}, labels[order])},
        TICKETS,
    )["train"]
    assert train.columns["revealing_length"] == 0
    assert train.notes["revealing_length"][0] == "The rows are sorted by label:"
    assert any(note.startswith("row from 0 to") for note in train.notes["revealing_length"])


def test_numbers_are_examined_as_above_or_below_their_median(examine, tickets):
    texts, labels = tickets
    targets = labels + np.random.default_rng(0).random(2000)
    marked = changed(
        texts, "body", targets > np.median(targets), lambda text, high: f"{text} high" if high else text
    )
    plain, found = (examine({"train": (given, targets)}, NUMBERS)["train"] for given in (texts, marked))
    assert plain.columns["auc_low"] > 0.7
    assert plain.columns["revealing_words"] < 0.1
    assert found.columns["revealing_words"] == 1
    assert any(
        note.startswith(f"“high” at the end: 100 % of labels above {np.median(targets):.4g} have it")
        for note in found.notes["revealing_words"]
    )


def test_splits_without_two_labels_are_not_examined(examine):
    texts = {"text": ["some text", None, "", "more text"]}
    assert (
        examine({"train": (texts, [1, 1, None, -1]), "test": (texts, [-1] * 4)}, Classification(("a", "b")))
        == {}
    )
    assert examine({"train": (texts, [0] * 4)}, Classification(("a",))) == {}
    assert examine({"train": (texts, [float("nan"), 1, 1, None])}, NUMBERS).keys() <= {"train"}
    assert examine(
        {"train": ({"text": []}, []), "test": (texts, [0, 1, 0, 7])}, Classification(("a", "b"))
    ).keys() == {"test"}


@pytest.mark.real_data
def test_mrpc_passes_and_its_shuffled_and_flipped_labels_do_not(examine, shared):
    lines = (shared / "data/mrpc/train.tsv").read_text(encoding="utf-8-sig").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    texts, labels = (
        {"one": [row[3] for row in rows], "two": [row[4] for row in rows]},
        np.array([int(row[0]) for row in rows]),
    )
    schema = Classification(("no", "yes"))
    right, shuffled, noisy = (
        examine({"train": (texts, given)}, schema)["train"].columns
        for given in (labels, np.random.default_rng(0).permutation(labels), flipped(labels, 0.3, 2))
    )
    assert (
        right["auc_low"] > 0.65,
        right["disagreement_high"] < 0.25,
        right["revealing_words"],
        right["revealing_length"],
    ) == (
        True,
        True,
        0,
        0,
    )
    assert shuffled["auc_high"] < 0.55
    assert noisy["disagreement_low"] > 0.25
