"""What texts say about their labels."""

import random

from tests.tuneline.checks.data import WORDS, Data, good_data, good_sets, params_for


def found(results, check: str, split: str = "train"):
    return [entry for entry in results.record.checks if (entry.check, entry.split) == (check, split)]


def test_numbers_decide_a_label_as_a_template(check):
    rng = random.Random(7)
    raw = {}
    for split, rows in {"train": 300, "validation": 100, "test": 100}.items():
        labels = [row % 2 for row in range(rows)]
        numbers = [rng.randrange(10**6) for _ in labels]
        texts = [f"error {'INC' * label}{number}" for label, number in zip(labels, numbers, strict=True)]
        raw[split] = {"text": texts, "labels": labels}
    data = Data(("text",), good_data().labels, params_for(("text",)), raw).tokenize()
    (entry,) = found(check(data, only=["revealing_words"]), "revealing_words")
    assert any(note.startswith("“inc0”") for note in entry.notes)


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
