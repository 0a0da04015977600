"""Every kind of bad input ends with one clear error, and leaves what was there before as it was."""

import gzip
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stages.download.__main__ import main
from tests.conftest import ROOT
from tests.stages.download.made import GOOD, TEST, TRAIN, VALIDATION, Content, write_params, write_source
from tuneline.runtime.errors import StageError

PACKED = gzip.compress(TRAIN.encode(), mtime=0)
JSONL = '{"text": "free money", "label": "spam"}\n{"text": "see you", "label": "ham"}\n'
HELD_OUT: dict[str, Content] = {"validation.csv": VALIDATION, "test.csv": TEST}
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


def train(content: Content, says: str, name: str = "train.csv", **data: Any) -> Bad:
    """A bad file for the train split, the only one it has."""
    return Bad({"train.csv": None, name: content}, says, data)


TABLE: dict[str, Bad] = {
    # --- the folder and its files
    "no file for a split": Bad({"validation.csv": None}, "data/source has no file for split 'validation'."),
    "two files for a split": Bad(
        {"train.tsv": "text\tlabel\n"}, "data/source: split 'train' has 2 files: 'train.csv', 'train.tsv'."
    ),
    "an ending nobody reads": Bad(
        {"test.csv": None, "test.xlsx": "x"},
        "data/source has no file for split 'test'.\n  Expected test.csv, .tsv, .jsonl or .parquet, plain or"
        " .gz, or a folder test/ with such files; test.xlsx has another suffix.",
    ),
    "a folder outside data/source": Bad(
        {}, "data.path: '../elsewhere' is outside data/source/.", {"path": "../elsewhere"}
    ),
    "an absolute folder": Bad({}, "data.path: '/etc' is outside data/source/.", {"path": "/etc"}),
    "a folder that is not there": Bad({}, "data.path: data/source/mrcp is not a folder.", {"path": "mrcp"}),
    # --- bytes
    "an empty file": train("", "data/source/train.csv is empty."),
    "a binary file": train(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "data/source/train.csv is a binary file: it contains a zero byte."
    ),
    "another encoding": train(
        "text,label\nfine,ham\ncaf\xe9,spam\n".encode("latin-1"),
        "data/source/train.csv, line 3: not utf-8: byte 0xe9.",
    ),
    "another encoding far into a long file": train(
        ("text,label\n" + "a line of text,ham\n" * 20_000 + "caf\xe9,spam\n").encode("latin-1"),
        "data/source/train.csv, line 20,002: not utf-8: byte 0xe9.",
    ),
    "utf-16 without saying so": train(
        TRAIN.encode("utf-16"),
        "data/source/train.csv, line 1: not utf-8, but utf-16 according to its byte order mark.",
    ),
    "half a character at the end": train(
        TRAIN.encode() + b"caf\xc3", "data/source/train.csv, line 6: not utf-8: byte 0xc3."
    ),
    "a gzip file that is cut off": train(
        PACKED[:-12], "data/source/train.csv.gz: the gzip file ends too early.", "train.csv.gz"
    ),
    "a gzip file that is damaged": train(
        PACKED[:14] + b"\xff\xff\xff" + PACKED[17:],
        "data/source/train.csv.gz: the gzip file is damaged",
        "train.csv.gz",
    ),
    "a gzip file with a wrong check sum": train(
        PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
        "data/source/train.csv.gz: not a gzip file, or a damaged one",
        "train.csv.gz",
    ),
    "gz that is no gzip": train(
        TRAIN.encode(), "data/source/train.csv.gz: not a gzip file, or a damaged one", "train.csv.gz"
    ),
    "gzip without gz": train(
        PACKED,
        "data/source/train.csv is a gzip file, and its name does not end in .gz.\n  Name it train.csv.gz.",
    ),
    # --- header and columns
    "only a header": train("text,label\n", "data/source/train.csv has no rows."),
    "only empty lines": train("\n\n\n", "data/source/train.csv has no rows, only empty lines."),
    "a missing text column": train(
        "body,label\nx,ham\n", "data/source/train.csv: no column 'text' (data.text_columns)."
    ),
    "a missing label column": train(
        "text,labels\nx,ham\n",
        "data/source/train.csv: no column 'label' (data.label_column).\n  The nearest is 'labels'.",
    ),
    "another delimiter": train(
        "text;label\nx;ham\n",
        "no column 'text' (data.text_columns).\n  Line 1 is one column when cut at ',': data.files.delimiter"
        " may be ';'.",
    ),
    "a header that names a column twice": train(
        "text,label,text\nx,ham,y\n",
        "data/source/train.csv, line 1: the header has a column twice.\n  Rename one of the two: 'text'",
    ),
    "no header": train(
        "free money,spam\nsee you,ham\n",
        "no column 'text' (data.text_columns).\n"
        "  Line 1 names 'free money', 'spam'. If it is not a header, name the columns in data.files.columns.",
    ),
    "a header beside data.files.columns": Bad(
        {},
        "data/source/train.csv, line 1: a header line instead of a row.",
        {"files": {"columns": ["text", "label"]}},
    ),
    "a header once more in the middle": train(
        TRAIN + TRAIN, "data/source/train.csv, line 6: a second header line."
    ),
    "data.files.columns that do not fit": Bad(
        {},
        "data/source/train.csv, line 1: 2 columns, but 3 in data.files.columns.",
        {"files": {"columns": ["id", "text", "label"]}},
    ),
    # --- rows
    "a row too short": train(
        "text,label\nfine,ham\nno label here\n",
        "data/source/train.csv, line 3: 1 column, but 2 in the header.",
    ),
    "a row too long": train(
        "text,label\nfine,ham\nwell, well,spam\n",
        "data/source/train.csv, line 3: 3 columns, but 2 in the header.\n  Quote texts that contain ','",
    ),
    "a row too long after a text of three lines": train(
        'text,label\n"a\nb\nc",ham\nwell, well,spam\n',
        "data/source/train.csv, line 5: 3 columns, but 2 in the header.",
    ),
    "quotes that are not literal in a tsv": train(
        'text\tlabel\n"a\tb"\tham\n',
        "data/source/train.tsv, line 2: 3 columns, but 2 in the header.\n  Quotes are literal here",
        "train.tsv",
    ),
    "a quote that is never closed": train(
        'text,label\nfine,ham\n"so they say,spam\nlunch?,ham\n',
        "data/source/train.csv, line 3: a quote that opens in this row is never closed.",
    ),
    "a quote that is not closed for a million characters": train(
        'text,label\nfine,ham\n"so they say,spam\n' + "lunch at noon?,ham\n" * 60_000 + '",ham\n',
        "data/source/train.csv, line 3: a quote that opens in this row is never closed, or a field has more"
        " than 1,048,576 characters (data.files.max_cell_characters).",
    ),
    "text behind a closing quote": train(
        'text,label\n"so" they say,spam\n', "data/source/train.csv, line 2: text follows a closing quote."
    ),
    # --- text
    "no text in a row": train(
        "text,label\nfine,ham\n  ,spam\n",
        "data/source/train.csv, line 3, column 'text': no text, or only white space.",
    ),
    "no text in either column": Bad(
        {"train.csv": "text,more,label\na,b,ham\nc,,spam\n,,ham\nd,,ham\n,e,ham\n"},
        "data/source/train.csv, line 4, column 'text' and 'more': no text, or only white space.",
        {
            "text_columns": ["text", "more"],
            "splits": {"train": "train[:3]", "validation": "train[3:4]", "test": "train[4:]"},
        },
    ),
    "null for a text": train(
        JSONL + '{"text": null, "label": "ham"}\n',
        "data/source/train.jsonl, line 3, column 'text': no text (null).",
        "train.jsonl",
    ),
    # --- labels
    "no label in a row": train(
        "text,label\nfine,ham\nfree,spam\nwell,\n", "data/source/train.csv, line 4, column 'label': no label."
    ),
    "no label at all": train(
        "text,label\nfine,\nfree,\n",
        "data/source/train.csv has no labels (all are -1 or missing), but the train split needs them.",
    ),
    "a label that is not among the names": Bad(
        {},
        "data/source/train.csv, line 2, column 'label': label 'spam' is not one of 'good', 'bad'.",
        {"label_names": ["good", "bad"]},
    ),
    "a label in validation that train does not have": Bad(
        {"validation.csv": "text,label\nfine,ham\nwell,eggs\n"},
        "data/source/validation.csv, line 3, column 'label': label 'eggs' is not one of 'ham', 'spam'.",
    ),
    "one class only": train("text,label\na,ham\nb,ham\n", "The train split has only the label 'ham'."),
    "texts for labels": Bad(
        {"train.csv": "text,label\n" + "".join(f"t{row},text number {row}\n" for row in range(1_200))},
        "data/source/train.csv: 1,200 distinct labels in 1,200 rows.",
    ),
    "fractions for classes": train(
        '{"text": "a", "label": 0.5}\n',
        "line 1, column 'label': the label is a fraction, not a class.\n  It is 0.5.",
        "train.jsonl",
    ),
    "a published test split without labels": Bad(
        {"test.csv": "text,label\na,-1\nb,-1\n"},
        "data/source/test.csv has no labels (all are -1 or missing), but the test split needs them.",
    ),
    # --- numbers to predict
    "a number that is none": Bad(
        {"train.csv": "text,label\na,1\nb,high\n"},
        "data/source/train.csv, line 3, column 'label': the label is not a number.\n  It is 'high'.",
        {"task": "regression"},
        SCORES,
    ),
    "a header that is read as a row": Bad(
        {
            "train.csv": "free money,spam\nsee you,ham\n",
            "validation.csv": "text,label\nwin,spam\nno lunch,ham\n",
            "test.csv": "win,spam\nno lunch,ham\n",
        },
        "validation.csv, line 1, column 'column_2': label 'label' is not one of 'ham', 'spam'.\n  It is in"
        " the first line",
        {
            "files": {"columns": ["column_1", "column_2"]},
            "text_columns": ["column_1"],
            "label_column": "column_2",
        },
    ),
    "a decimal comma": Bad(
        {"train.csv": 'text,label\na,1\nb,"1,5"\n'},
        "line 3, column 'label': the label is not a number.\n  It is '1,5', with a decimal comma: set"
        " data.files.decimal to ','.",
        {"task": "regression"},
        SCORES,
    ),
    "NaN": Bad(
        {"train.csv": "text,label\na,1\nb,NaN\n"},
        "data/source/train.csv, line 3, column 'label': no label.",
        {"task": "regression"},
        SCORES,
    ),
    "infinity": Bad(
        {"train.csv": "text,label\na,1\nb,-inf\n"},
        "data/source/train.csv, line 3, column 'label': the label does not fit a 32-bit float.\n  It is"
        " -inf.",
        {"task": "regression"},
        SCORES,
    ),
    "a number beyond 32 bits": Bad(
        {"train.csv": None, "train.jsonl": '{"text": "a", "label": 1e300}\n'},
        "data/source/train.jsonl, line 1, column 'label': the label does not fit a 32-bit float.\n  It is"
        " 1e+300.",
        {"task": "regression"},
        SCORES,
    ),
    "a whole number that would become another": Bad(
        {"train.csv": "text,label\na,1\nb,9007199254740993\n"},
        "data/source/train.csv, line 3, column 'label': the label has more digits than a number holds.\n "
        " 9007199254740993 would",
        {"task": "regression"},
        SCORES,
    ),
    "targets that are all equal": Bad(
        {"train.csv": "text,label\na,2.5\nb,2.5\n"},
        "All targets of the train split are 2.5.",
        {"task": "regression"},
        SCORES,
    ),
    "reported targets that are all equal": Bad(
        {"test.csv": "text,label\na,3\nb,3\n"},
        "All targets of the test split are 3.",
        {"task": "regression"},
        SCORES,
    ),
    # --- JSON Lines
    "a line that is no JSON": train(
        JSONL + "{'text': 'a'}\n", "data/source/train.jsonl, line 3: not JSON: ", "train.jsonl"
    ),
    "a list in a line": train(
        JSONL + '["a", "ham"]\n',
        "data/source/train.jsonl, line 3: a list instead of a JSON object.",
        "train.jsonl",
    ),
    "an array without an end": train(
        '[\n{"text": "a", "label": "ham"},\n{"text": "b",',
        "data/source/train.jsonl, line 3: not JSON: ",
        "train.jsonl",
    ),
    "an array of texts": train(
        '["a", "b"]', "data/source/train.jsonl, line 1: text instead of a JSON object.", "train.jsonl"
    ),
    "a key that is missing": train(
        JSONL + '{"text": "a"}\n', "data/source/train.jsonl, line 3: no column 'label'", "train.jsonl"
    ),
    "a number for a text": train(
        '{"text": 7, "label": "ham"}\n', "line 1: column 'text' is a number, not text.", "train.jsonl"
    ),
    "labels of two kinds": train(
        JSONL + '{"text": "a", "label": 1}\n',
        "data/source/train.jsonl, line 3, column 'label': the label is a number, but that in line 1 is"
        " text.\n  It is 1.",
        "train.jsonl",
    ),
    "a list for a label": train(
        '{"text": "a", "label": ["ham"]}\n',
        "line 1, column 'label': a label is text or a number, not a list.",
        "train.jsonl",
    ),
    "half a character": train(
        '{"text": "a \\ud83d", "label": "ham"}\n',
        "line 1: column 'text' has an unpaired surrogate, \\ud83d.",
        "train.jsonl",
    ),
    "a whole file in one line": train(
        '{"text": "free money for all of you", "label": "spam"} ' * 350_000,
        "data/source/train.jsonl, line 1: longer than 16,777,216 characters.",
        "train.jsonl",
    ),
    "JSON nested too deep": train(
        "[" * 100_000 + "\n", "data/source/train.jsonl, line 1: JSON nested too deep.", "train.jsonl"
    ),
    # --- Parquet
    "a Parquet file that is none": train(
        b"PAR1" + b"x" * 40,
        "data/source/train.parquet: not a Parquet file, or a damaged one: ",
        "train.parquet",
    ),
    "an empty Parquet file": train(
        b"", "data/source/train.parquet: not a Parquet file, or a damaged one: ", "train.parquet"
    ),
    "numbers for texts in Parquet": train(
        [{"text": 1, "label": "ham"}],
        "data/source/train.parquet: column 'text' holds int64, not text.",
        "train.parquet",
    ),
    "a null in Parquet": train(
        [{"text": "a", "label": 0}, {"text": None, "label": 1}],
        "data/source/train.parquet, row 2, column 'text': no text (null).",
        "train.parquet",
    ),
    "a column missing in Parquet": train(
        [{"text": "a"}], "data/source/train.parquet: no column 'label' (data.label_column).", "train.parquet"
    ),
    "dates for labels": train(
        [{"text": "a", "label": date(2026, 1, 1)}],
        "column 'label': labels of type date32[day] cannot be class names.",
        "train.parquet",
    ),
    # --- sizes
    "a gzip file that unpacks without end": train(
        gzip.compress(TRAIN.encode() + b"more,ham\n" * 200_000),
        "data/source/train.csv.gz: it unpacks to more than 1 MB (data.files.max_unpacked_mb).",
        "train.csv.gz",
        files={"max_unpacked_mb": 1},
    ),
    "a gzip file of newlines without end": train(
        gzip.compress(TRAIN.encode() + b"\n" * 1_100_000, 1),
        "data/source/train.csv.gz, line 6: more than 1,000,000 empty lines follow each other.",
        "train.csv.gz",
    ),
    "a Parquet file that unpacks without end": train(
        gzip.compress(bytes(2 << 20)),
        "data/source/train.parquet.gz: it unpacks to more than 1 MB (data.files.max_unpacked_mb).",
        "train.parquet.gz",
        files={"max_unpacked_mb": 1},
    ),
    "a text without end": train(
        JSONL + '{"text": "' + "x" * 101 + '", "label": "ham"}\n',
        "line 3: column 'text' has 101 characters, more than 100 (data.files.max_cell_characters).",
        "train.jsonl",
        files={"max_cell_characters": 100},
    ),
    "a text without end in Parquet": train(
        [{"text": "a", "label": "ham"}, {"text": "x" * 101, "label": "spam"}],
        "data/source/train.parquet, row 2, column 'text': 101 characters, more than 100"
        " (data.files.max_cell_characters).",
        "train.parquet",
        files={"max_cell_characters": 100},
    ),
    "a row group that is stored once and repeated": train(
        [{"text": "x" * 10_000, "label": "ham"}] * 300,
        "data/source/train.parquet, row group 1: its rows take more than 1 MB (data.files.max_row_group_mb).",
        "train.parquet",
        files={"max_row_group_mb": 1},
    ),
    "rows that are too large together": train(
        "text,label\n" + ("x" * 10_000 + ",ham\n") * 300,
        "data/source/train.csv, before line 301: up to 10,000 rows take more than 1 MB"
        " (data.files.max_row_group_mb).",
        files={"max_row_group_mb": 1},
    ),
    # --- data.splits
    "a slice that is none": Bad(
        {}, "data.splits.train: 'train[:90' is not a slice: ", {"splits": {"train": "train[:90"}}
    ),
    "a split of a name that is none": Bad(
        {}, "data.splits.train: 'my-train' is not a slice: ", {"splits": {"train": "my-train"}}
    ),
    "a percentage over 100": Bad(
        {}, "data.splits.train: 'train[:120%]' is not a slice: ", {"splits": {"train": "train[:120%]"}}
    ),
    "a slice without rows": Bad(
        {},
        "data.splits.validation: 'train[4:]' selects no rows.\n  Available rows: 'train' has 4.",
        {"splits": {"validation": "train[4:]"}},
    ),
    "a slice too small for its rounding": Bad(
        {},
        "data.splits.train: 'train[:50%](pct1_dropremainder)': ",
        {"splits": {"train": "train[:50%](pct1_dropremainder)"}},
    ),
    "slices that overlap": Bad(
        {},
        "data.splits: rows 2 to 2 of 'train' would be in both train and validation.",
        {"splits": {"train": "train[:3]", "validation": "train[2:]"}},
    ),
    "one split for two": Bad(
        {},
        "data.splits: rows 0 to 1 of 'validation' would be in both validation and test.",
        {"splits": {"test": "validation"}},
    ),
    # --- parameters
    "a delimiter that is a quote": Bad(
        {}, "data.files.delimiter: must be characters other than a quote", {"files": {"delimiter": '"'}}
    ),
    "an encoding that nobody knows": Bad(
        {}, "data.files.encoding: Python has no encoding 'utf-9'", {"files": {"encoding": "utf-9"}}
    ),
    "columns that miss a wanted one": Bad(
        {}, "data.files.columns: 'text' is missing", {"files": {"columns": ["body", "label"]}}
    ),
    "columns named twice": Bad(
        {}, "data.files.columns: 'text' is listed twice", {"files": {"columns": ["text", "text", "label"]}}
    ),
    "a text column that is the label too": Bad(
        {}, "data.label_column: 'text' is also a text column", {"label_column": "text"}
    ),
    "a column name that the pipeline needs": Bad(
        {}, "data.text_columns: 'idx' is a column that the pipeline adds", {"text_columns": ["idx"]}
    ),
    "one class name": Bad({}, "data.label_names: must list at least two classes", {"label_names": ["spam"]}),
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
    kinds: dict[str, tuple[Callable[[], object], str]] = {
        "folder": (train.mkdir, "is a folder, not a file.\n  Rename it: batches are in a folder train/."),
        "pipe": (lambda: os.mkfifo(train), "is a named pipe, not a file."),
        "dangling": (lambda: train.symlink_to("gone.csv"), "is a link to gone.csv, which does not exist."),
        "loop": (lambda: train.symlink_to("train.csv"), "is a link that leads to itself."),
        "socket": (lambda: os.mknod(train, stat.S_IFSOCK), "is a socket, not a file."),
        "device": (lambda: train.symlink_to("/dev/zero"), "is a character device, not a file."),
    }
    for make, says in kinds.values():
        make()
        with pytest.raises(StageError) as raised:
            main()
        assert f"{train} {says}" in str(raised.value)
        train.rmdir() if train.is_dir() else train.unlink()
    os.mkfifo("data/source/train")
    with pytest.raises(StageError, match=r"data/source/train, .*pipe"):
        main()


@pytest.mark.parametrize(
    "case",
    [
        "a row too long",
        pytest.param("a gzip file that is cut off", marks=pytest.mark.slow),
        pytest.param("one split for two", marks=pytest.mark.slow),
        pytest.param("one class name", marks=pytest.mark.slow),
    ],
)
def test_the_command_ends_with_the_error_and_no_traceback(case: str, project: Path):
    set_up(TABLE[case])
    command = [sys.executable, "-m", "stages.download"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 78
    assert "download: " in ended.stderr
    assert TABLE[case].says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_untouched()
