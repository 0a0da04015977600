"""Corrections of rows that have any number of labels."""

import json
from pathlib import Path

from tests.tuneline.rows.splits.test_corrector import correct, key
from tuneline.model.tasks.columns import read_task

SETS = ["a", "b;a", "", "c;b", "b"]
CSV = "text,tags\n" + "".join(f"text number {row},{SETS[row % 5]}\n" for row in range(300))
DATA = {
    "task": "multilabel",
    "label_column": "tags",
    "label_sets": {"layout": "separated", "separator": ";"},
    "splits": {"train": "all"},
    "split": {"validation": 0.2, "test": 0.2},
}


def sets_of(table) -> dict[str, set[str]]:
    """Return the names of each row's labels, by its text."""
    names = read_task(table.schema).names
    sets = {}
    for row in table.select(["text", "labels"]).to_pylist():
        sets[row["text"]] = {names[label] for label in row["labels"]}
    return sets


def test_correction_of_a_set_is_applied_however_it_is_ordered(download):
    before = sets_of(download({"all.csv": CSV}, DATA)["train"])
    pairs = [text for text, names in before.items() if names == {"a", "b"}][:3]
    empty = next(text for text, names in before.items() if not names)
    correct(
        [
            (key(pairs[0]), "train", "a;b", "c"),
            (key(pairs[1]), "train", "b;a", "c;a"),
            (key(pairs[2]), "train", "a", "c"),
            (key(empty), "train", "", "b"),
        ]
    )
    after = sets_of(download({"all.csv": CSV}, DATA)["train"])
    assert after == {**before, pairs[0]: {"c"}, pairs[1]: {"a", "c"}, empty: {"b"}}
    corrections = json.loads(Path("data/raw/source.json").read_text())["corrections"]
    assert (corrections["labels"], corrections["unmatched"]) == (3, 1)
