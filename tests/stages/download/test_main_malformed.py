"""Every kind of bad input ends with one clear error, and leaves what was there before as it was."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stages.download import source
from stages.download.__main__ import main
from tests.conftest import ROOT
from tests.stages.download.made import GOOD, TRAIN, Content, write_params, write_source
from tuneline.runtime.errors import StageError

PACKED = gzip.compress(TRAIN.encode(), mtime=0)
JSONL = '{"text": "free money", "label": "spam"}\n{"text": "see you", "label": "ham"}\n'
SCORES: dict[str, Content] = {
    f"{name}.csv": "text,label\none,1.5\ntwo,2\n" for name in ("train", "validation", "test")
}


class Bad(NamedTuple):
    """A bad input: files beside or instead of the good ones (``None`` takes one away), parameters, and what
    must be said."""

    files: Mapping[str, Content]
    says: str
    data: Mapping[str, Any] = {}
    good: Mapping[str, Content] = GOOD


def train(content: Content, says: str, name: str = "train.csv") -> Bad:
    """A bad file for the train split, the only one it has."""
    return Bad({"train.csv": None, name: content}, f"data/source/{name}{says}")


def number(label: str, says: str) -> Bad:
    """A bad number to predict, in line 3."""
    content = f"text,label\na,1\nb,{label}\n"
    return Bad(
        {"train.csv": content}, f"train.csv, line 3, column 'label': {says}", {"task": "regression"}, SCORES
    )


TABLE: dict[str, Bad] = {
    # --- the folder and its files
    "no file for a split": Bad({"validation.csv": None}, "data/source has no file for split 'validation'."),
    "two files for a split": Bad(
        {"train.tsv": "text\tlabel\n"}, "has several files: 'train.csv', 'train.tsv'"
    ),
    "an ending nobody reads": Bad({"test.csv": None, "test.xlsx": "x"}, "there is 'test.xlsx'"),
    "a folder outside data/source": Bad({}, "is outside data/source/.", {"path": "../elsewhere"}),
    "an absolute folder": Bad({}, "data.path: '/etc' is outside data/source/.", {"path": "/etc"}),
    "a folder that is not there": Bad({}, "data/source/mrcp is not a folder.", {"path": "mrcp"}),
    # --- bytes and headers
    "an empty file": train("", " is empty"),
    "a binary file": train(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", " is a binary file"),
    "another encoding": train(b"text,label\nfine,ham\ncaf\xe9,spam\n", ", line 3: not utf-8: byte 0xe9."),
    "utf-16 without saying so": train(TRAIN.encode("utf-16"), ", line 1: not utf-8, but utf-16"),
    "a gzip file that is cut off": train(
        PACKED[:-12], ": the gzip file is cut off or damaged", "train.csv.gz"
    ),
    "only a header": train("text,label\n", " has no rows."),
    "a missing column": train("text,labels\nx,ham\n", ": no column 'label'.\n  The nearest is 'labels'."),
    "no header": train("free,spam\nsee you,ham\n", ": no column 'text'.\n  Line 1 names 'free', 'spam'."),
    "a header beside data.files.columns": Bad(
        {}, "train.csv, line 1: a header line instead of a row.", {"files": {"columns": ["text", "label"]}}
    ),
    "data.files.columns that do not fit": Bad(
        {}, "line 1: 2 columns, but 3 in the header.", {"files": {"columns": ["id", "text", "label"]}}
    ),
    "a header that is read as a row": Bad(
        {
            "validation.csv": "text,label\na,ham\n",
            "train.csv": "a,spam\nb,ham\n",
            "test.csv": "a,spam\nb,ham\n",
        },
        "validation.csv, line 1: a header line instead of a row.",
        {"files": {"columns": ["text", "label"]}},
    ),
    # --- rows
    "a row too long": train(
        "text,label\nfine,ham\nwell, well,spam\n", ", line 3: 3 columns, but 2 in the header."
    ),
    "no text in a row": train("text,label\nfine,ham\n  ,spam\n", ", line 3, column 'text': no text"),
    "no text in either column": Bad(
        {"train.csv": "text,more,label\na,b,ham\nc,,spam\n,,ham\nd,,ham\n,e,ham\n"},
        "data/source/train.csv, line 4, column 'text' and 'more': no text, or only white space.",
        {
            "text_columns": ["text", "more"],
            "splits": {"train": "train[:3]", "validation": "train[3:4]", "test": "train[4:]"},
        },
    ),
    "null for a text": train(
        JSONL + '{"label": "ham"}\n', ", line 3, column 'text': no text (null).", "train.jsonl"
    ),
    "a line that is no JSON": train(JSONL + "{'text': 'a'}\n", ", line 3: not JSON: ", "train.jsonl"),
    # --- labels
    "no label in a row": train("text,label\nfine,ham\nfree,\n", ", line 3, column 'label': no label."),
    "no label at all": train("text,label\nfine,\nfree,\n", " has no labels (all are -1 or missing)"),
    "a label that is not among the names": Bad(
        {},
        "line 2, column 'label': label 'spam' is not one of 'good', 'bad'.",
        {"label_names": ["good", "bad"]},
    ),
    "a label in validation that train does not have": Bad(
        {"validation.csv": "text,label\nfine,ham\nwell,eggs\n"},
        "validation.csv, line 3, column 'label': label 'eggs' is not one of 'ham', 'spam'.",
    ),
    "one class only": Bad(
        {"train.csv": "text,label\na,ham\nb,ham\n"}, "The train split has only the label 'ham'."
    ),
    "texts for labels": train(
        "text,label\n" + "".join(f"t{row},text number {row}\n" for row in range(1_200)),
        ": 1,200 distinct labels in 1,200 rows.",
    ),
    "fractions for classes": train(
        '{"text": "a", "label": 0.5}\n', ", line 1, column 'label': the label is a fraction", "train.jsonl"
    ),
    "dates for labels": train(
        [{"text": "a", "label": date(2026, 1, 1)}],
        ", row 1, column 'label': a label is text",
        "train.parquet",
    ),
    "a published test split without labels": Bad(
        {"test.csv": "text,label\na,-1\nb,-1\n"}, "test.csv has no labels (all are -1 or missing)"
    ),
    "a number that is none": number("high", "the label is not a number.\n  It is 'high'."),
    "a decimal comma": number('"1,5"', "the label is not a number.\n  It is '1,5'."),
    "NaN": number("NaN", "no label."),
    "infinity": number("-inf", "the label does not fit a 32-bit float."),
    "a whole number that would become another": number("9007199254740993", "the label has more digits"),
    "targets that are all equal": Bad(
        {"test.csv": "text,label\na,3\nb,3\n"},
        "All targets of the test split are 3.",
        {"task": "regression"},
        SCORES,
    ),
    # --- Parquet
    "a Parquet file that is none": train(b"PAR1" + b"x" * 40, ": not a Parquet file", "train.parquet"),
    "a null in Parquet": train(
        [{"text": "a", "label": 0}, {"text": None, "label": 1}],
        ", row 2, column 'text': no text",
        "train.parquet",
    ),
    # --- data.splits
    "a slice that is none": Bad(
        {}, "data.splits.train: 'train[:90' is not a slice: ", {"splits": {"train": "train[:90"}}
    ),
    "a percentage over 100": Bad(
        {}, "'train[:120%]' is not a slice: ", {"splits": {"train": "train[:120%]"}}
    ),
    "a slice without rows": Bad(
        {},
        "'train[4:]' selects no rows.\n  Available rows: 'train' has 4.",
        {"splits": {"validation": "train[4:]"}},
    ),
    "slices that overlap": Bad(
        {},
        "data.splits: rows 2 to 2 of 'train' would be in both train and validation.",
        {"splits": {"train": "train[:3]", "validation": "train[2:]"}},
    ),
    # --- parameters
    "an encoding that nobody knows": Bad(
        {}, "data.files.encoding: Python has no encoding 'utf-9'", {"files": {"encoding": "utf-9"}}
    ),
    "columns that miss a wanted one": Bad(
        {}, "data.files.columns: 'text' is missing", {"files": {"columns": ["body", "label"]}}
    ),
    "a column name that the pipeline needs": Bad(
        {}, "data.text_columns: 'idx' is a column that the pipeline adds", {"text_columns": ["idx"]}
    ),
    "a class named twice": Bad(
        {}, "data.label_names: 'spam' is listed twice", {"label_names": ["spam", "ham", "spam"]}
    ),
}


def set_up(bad: Bad) -> None:
    """Writes the bad input, and what an earlier run left."""
    write_source(Path("data/source"), {**bad.good, **bad.files})
    write_params(bad.data)
    write_source(Path("data/raw"), {"train.parquet": "what an earlier run left"})


def assert_untouched() -> None:
    """What the earlier run left is still there, and nothing else that is seen."""
    assert {path.name: path.read_text() for path in Path("data/raw").iterdir()} == {
        "train.parquet": "what an earlier run left"
    }
    assert {path.name for path in Path("data").glob("[!.]*")} == {"raw", "source"}


@pytest.mark.parametrize("bad", TABLE.values(), ids=TABLE)
def test_bad_input_is_named_with_its_place_and_nothing_is_written(bad: Bad, project: Path):
    set_up(bad)
    with pytest.raises(StageError) as raised:
        main()
    assert bad.says in str(raised.value)
    assert raised.value.hint or "error" in raised.value.problem  # problems of parameters list all errors
    assert_untouched()


def test_what_is_named_like_a_split_and_is_no_file_is_named_as_what_it_is(project: Path):
    """Nothing is opened: a pipe would be waited for."""
    write_source(Path("data/source"), GOOD)
    write_params({})
    train = Path("data/source/train.csv")
    train.unlink()
    kinds: dict[str, Callable[[], object]] = {
        "is a folder, not a file.": train.mkdir,
        "is a named pipe, not a file.": lambda: os.mkfifo(train),
        "is a link to gone.csv, which does not exist.": lambda: train.symlink_to("gone.csv"),
        "is a character device, not a file.": lambda: train.symlink_to("/dev/zero"),
    }
    for says, make in kinds.items():
        make()
        with pytest.raises(StageError) as raised:
            main()
        assert f"{train} {says}" in str(raised.value)
        train.rmdir() if train.is_dir() else train.unlink()
    os.mkfifo("data/source/train")
    with pytest.raises(StageError, match=r"data/source/train, .*pipe"):
        main()


def test_rows_that_are_too_large_together_are_refused(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source, "LARGEST_ROW_GROUP", 1 << 20)
    set_up(train("text,label\n" + ("x" * 10_000 + ",ham\n") * 300, ""))
    with pytest.raises(StageError, match=r"train\.csv, before line 301: up to 10,000 rows take more than"):
        main()
    assert_untouched()


def test_the_command_ends_with_the_error_and_no_traceback(project: Path):
    bad = TABLE["a row too long"]
    set_up(bad)
    command = [sys.executable, "-m", "stages.download"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 78
    assert "download: " in ended.stderr
    assert bad.says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_untouched()
