"""What texts say about their labels."""

import random
import re

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from stages.validate.labels import area_under_curve
from tests.stages.validate.data import WORDS, Data, good_data, good_sets, params_for, sentence, words_of
from tuneline.tasks import Regression

LABEL_CHECKS = ["learnable_labels", "revealing_words"]


def regression() -> Data:
    """Return texts whose number grows with the words of one topic."""
    rng = random.Random(2)
    raw = {}
    for split, rows in {"train": 400, "validation": 100, "test": 100}.items():
        labels = [rng.random() for _ in range(rows)]
        texts = [sentence(rng, words_of(int(label > 0.5), 2)) for label in labels]
        raw[split] = {"text": texts, "labels": labels}
    data = Data(("text",), Regression(), params_for(("text",), "regression"), raw)
    data.set_params(lambda values: values["train"].update(metric="pearson"))
    return data.tokenize()


def found(results, check: str, split: str = "train"):
    return [entry for entry in results.record.checks if (entry.check, entry.split) == (check, split)]


def area_of(results) -> float:
    (entry, *_) = found(results, "learnable_labels")
    return float(re.search(r"curve (\d\.\d+)", entry.found)[1])


def shuffle(data: Data) -> None:
    rng = random.Random(5)
    for split in data.raw:
        rng.shuffle(data.raw[split]["labels"])
        data.tokenized[split]["labels"] = data.raw[split]["labels"]


@pytest.mark.parametrize("make", [good_data, good_sets, regression])
def test_shuffled_labels_cannot_be_learnt(make, check):
    data = make()
    results = check(data, only=LABEL_CHECKS)
    assert {entry.status for entry in results.record.checks} == {"passed"}
    assert area_of(results) > 0.75
    shuffle(data)
    assert area_of(check(data, only=LABEL_CHECKS)) == pytest.approx(0.5, abs=0.1)


def test_numbers_decide_a_label_as_they_are_and_as_a_template(check):
    rng = random.Random(7)
    raw = {}
    for split, rows in {"train": 300, "validation": 100, "test": 100}.items():
        labels = [row % 2 for row in range(rows)]
        texts = [f"error {rng.choice((404, 410) if label else (500, 503))}" for label in labels]
        raw[split] = {"text": texts, "labels": labels}
    data = Data(("text",), good_data().labels, params_for(("text",)), raw).tokenize()
    assert area_of(check(data, only=LABEL_CHECKS)) == pytest.approx(1.0, abs=0.01)

    for table in raw.values():
        table["text"] = [
            f"error INC{rng.randrange(10**6)}" if label else f"error {rng.randrange(10**6)}"
            for label in table["labels"]
        ]
    results = check(data.tokenize(), only=LABEL_CHECKS)
    assert area_of(results) == pytest.approx(1.0, abs=0.01)
    (entry,) = found(results, "revealing_words")
    assert any(note.startswith("“inc0”") for note in entry.notes)


def test_area_is_that_of_scikit_learn_and_its_error_shrinks_with_the_rows():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=900)
    scores = generator.normal(size=(900, 3)) + 2 * (labels[:, None] == np.arange(3))
    members = labels[:, None] == np.arange(3)
    area, error = area_under_curve(scores, members)
    assert area == pytest.approx(roc_auc_score(members, scores, average="weighted"))
    few, more = area_under_curve(scores[:90], members[:90])
    assert more == pytest.approx(error * np.sqrt(10), rel=0.4)
    assert few == pytest.approx(area, abs=0.1)


def test_revealing_word_of_one_of_several_labels_is_named(check):
    data = good_sets()
    table = data.raw["train"]
    table["text"] = [
        f"{text} {WORDS[0]} {WORDS[1]}" if 3 in labels else text
        for text, labels in zip(table["text"], table["labels"], strict=True)
    ]
    (entry,) = found(check(data.tokenize(), only=["revealing_words"]), "revealing_words")
    assert entry.status == "failed"
    assert 'of "urgent" have it' in entry.notes[0]


def test_absent_label_and_balance_of_several_labels(check):
    data = good_sets()
    for table in (data.raw["train"], data.tokenized["train"]):
        table["labels"] = [[0] * (row % 20 > 0) for row in range(len(table["labels"]))]
    results = check(data, only=["absent_classes", "class_balance"])
    assert {entry.check for entry in results.record.checks if entry.status == "failed"} == {
        "absent_classes",
        "class_balance",
    }
    (absent,) = found(results, "absent_classes")
    assert (absent.found, absent.allowed) == ("3", "at most 0")
