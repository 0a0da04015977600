"""Every kind of bad input ends with one clear error, and leaves what was there before as it was."""

import gzip
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stages.download import main
from tests.conftest import ROOT
from tests.stages.download.made import GOOD, TRAIN, Content, write_params, write_source
from tuneline.core.runtime.errors import StageError

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
    "a folder outside data/source": Bad({}, "is outside data/source/.", {"path": "../elsewhere"}),
    "an absolute folder": Bad({}, "data.path: '/etc' is outside data/source/.", {"path": "/etc"}),
    # --- bytes and headers
    "a binary file": train(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", " is a binary file"),
    "another encoding": train(b"text,label\nfine,ham\ncaf\xe9,spam\n", ", line 3: not utf-8: byte 0xe9."),
    "utf-16 without saying so": train(TRAIN.encode("utf-16"), ", line 1: not utf-8, but utf-16"),
    "a gzip file that is cut off": train(
        PACKED[:-12], ": the gzip file is cut off or damaged", "train.csv.gz"
    ),
    "only a header": train("text,label\n", " has no rows."),
    "a missing column": train("text,labels\nx,ham\n", ": no column 'label'.\n  The nearest is 'labels'."),
    "a header beside data.files.columns": Bad(
        {}, "train.csv, line 1: a header line instead of a row.", {"files": {"columns": ["text", "label"]}}
    ),
    # --- rows
    "a row too long": train(
        "text,label\nfine,ham\nwell, well,spam\n", ", line 3: 3 columns, but 2 in the header."
    ),
    "null for a text": train(
        JSONL + '{"label": "ham"}\n', ", line 3, column 'text': no text (null).", "train.jsonl"
    ),
    "a line that is no JSON": train(JSONL + "{'text': 'a'}\n", ", line 3: not JSON: ", "train.jsonl"),
    # --- labels
    "no label in a row": train("text,label\nfine,ham\nfree,\n", ", line 3, column 'label': no label."),
    "no label at all": train("text,label\nfine,\nfree,\n", " has no labels (all are -1 or missing)"),
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
    "a published test split without labels": Bad(
        {"test.csv": "text,label\na,-1\nb,-1\n"}, "test.csv has no labels (all are -1 or missing)"
    ),
    "a decimal comma": number('"1,5"', "the label is not a number.\n  It is '1,5'."),
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
    # --- data.splits
    "one file for two splits": Bad(
        {}, "splits: 'train' is listed twice", {"splits": {"train": "train", "validation": "train"}}
    ),
    # --- parameters
    "a column name that the pipeline needs": Bad(
        {}, "data.text_columns: 'idx' is a column that the pipeline adds", {"text_columns": ["idx"]}
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
