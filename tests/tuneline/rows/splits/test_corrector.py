"""What ``data/corrections/`` changes in the rows that the stage writes."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from tests.stages.download.made import GOOD
from tuneline.core.paths import RAW
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.provenance import RawSource
from tuneline.rows.splits.corrections import DROPPED_SCHEMA, LABEL_SCHEMA, Corrections, label_file, row_keys

ROWS = [(f"text number {row}", f"{'abc'[row % 3]}") for row in range(300)]
CSV = "text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS)
DIVIDED = {
    "splits": {"train": "all"},
    "split": {"validation": 0.2, "test": 0.2},
    "label_names": ["a", "b", "c"],
}


def key(*texts: str) -> str:
    return row_keys([pa.array([text]) for text in texts])[0].as_py()


def correct(labels: list[tuple[str, ...]] = (), dropped: list[tuple[str, ...]] = ()) -> None:
    """Write corrections, given as rows of the two files."""
    Corrections(
        pa.Table.from_pylist(
            [dict(zip(LABEL_SCHEMA.names, row, strict=True)) for row in labels], LABEL_SCHEMA
        ),
        pa.Table.from_pylist(
            [dict(zip(DROPPED_SCHEMA.names, row, strict=True)) for row in dropped], DROPPED_SCHEMA
        ),
    ).write()


def pairs(tables: dict[str, pa.Table]) -> dict[str, dict[str, int]]:
    """Return the label of each text, by split."""
    return {
        split: dict(zip(*(table[name].to_pylist() for name in ("text", "labels")), strict=True))
        for split, table in tables.items()
    }


def test_corrections_move_no_other_row_between_splits(download):
    """A stratified division counts the rows of each class: it must count those of the source."""
    before = pairs(download({"all.csv": CSV}, DIVIDED))
    dropped, changed = list(before["train"])[:60], list(before["train"])[60:90]
    names = [(key(text), "train", "abc"[before["train"][text]]) for text in changed]
    correct(
        [(*row, "b" if row[2] == "a" else "a") for row in names],
        [(key(text), "train", "all", "leakage") for text in dropped],
    )
    after = pairs(download({"all.csv": CSV}, DIVIDED))
    assert after["validation"] == before["validation"]
    assert after["test"] == before["test"]
    assert list(after["train"]) == list(before["train"])[60:]
    assert {text for text in after["train"] if after["train"][text] != before["train"][text]} == set(changed)
    assert Path("data/source/all.csv").read_text() == CSV


def test_provenance_counts_the_corrections(download, capsys):
    correct(
        [
            (key("free money"), "test", "spam", "ham"),  # of another split: the split is only information
            (key("lunch?"), "train", "spam", "ham"),  # the source has it by now
            (key("a prize for you"), "validation", "eggs", "ham"),  # the source has another label by now
            (key("gone"), "train", "spam", "ham"),
            (key("win"), "test", "spam", "eggs"),  # not a class
        ],
        [(key("see you at six"), "train", "all", "leakage"), (key("see you"), "train", "all", "leakage")],
    )
    tables = pairs(download(GOOD))
    assert tables["train"] == {"free money": 0, "you won": 1, "lunch?": 0}
    assert tables["validation"] == {"a prize for you": 1, "see you": 0}
    assert tables["test"] == {"win": 1, "no lunch": 0}
    counts = RawSource.read(RAW / "source.json").corrections.model_dump()
    digests = counts.pop("sha256")
    assert counts == {"labels": 1, "dropped": 1, "unmatched": 4}
    assert digests["labels.csv"] == hashlib.sha256(label_file().read_bytes()).hexdigest()
    output = capsys.readouterr().out
    assert "labels corrected: 1, rows left out: 1" in output
    assert "3 of 5 corrections match no row of this data (data/corrections/labels.csv, line " in output
    assert "1 of 2 corrections match no row of this data (data/corrections/dropped.csv, line " in output


def test_dropped_rows_are_all_or_the_later_ones_of_one_split_or_of_any(download, monkeypatch):
    monkeypatch.setattr("tuneline.rows.reading.tables.ROW_GROUP", 2)
    monkeypatch.setattr("tuneline.core.stage.tables.ROW_GROUP", 2)
    train = "text,label\none,spam\ntwo,ham\none,spam\none,ham\nthree,spam\none,spam\nbad,ham\n"
    correct(
        dropped=[(key("one"), "train", "later", "duplicates"), (key("bad"), "", "all", "control_characters")]
    )
    tables = download({**GOOD, "train.csv": train, "test.csv": "text,label\none,spam\nbad,spam\none,ham\n"})
    assert tables["train"]["text"].to_pylist() == ["one", "two", "three"]
    assert tables["test"]["text"].to_pylist() == ["one", "one"]
    assert RawSource.read(RAW / "source.json").corrections.dropped == 5


def test_pairs_and_numbers_are_corrected(download):
    rows = "one,two,label\na,b,1.5\nb,a,2.5\nc,d,0.1\n"
    correct(
        [
            (key("b", "a"), "train", "2.5", "-2"),
            (key("c", "d"), "train", "0.1", "7"),
            (key("a", "b"), "train", "1.5", "much"),
        ]
    )
    files = dict.fromkeys(GOOD, rows)
    params = {"text_columns": ["one", "two"], "task": "regression"}
    tables = download(files, params, train={"metric": "pearson"}, evaluate={"metrics": []})
    assert tables["train"]["labels"].to_pylist() == [1.5, -2, 7]


def test_invalid_file_is_named(download):
    correct([(key("win"), "test", "spam", "ham")])
    label_file().write_text(
        label_file().read_text() + label_file().read_text().splitlines()[1].replace("ham", "eggs") + "\n"
    )
    with pytest.raises(
        DataError,
        match=r"labels\.csv: two corrections of the row",
    ):
        download(GOOD)
    label_file().write_text("<<<<<<< HEAD\n" + label_file().read_text())
    with pytest.raises(DataError, match=r"corrections/labels\.csv"):
        download(GOOD)
