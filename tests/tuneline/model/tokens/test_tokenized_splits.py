import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import ROOT
from tuneline.core.stage.tables import LABELS, SplitReader, shard_file, write_table
from tuneline.model.tasks import Classification, Regression
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

CLASSES = Classification(("no", "yes"))
ROWS = [[5, 300], [], [7], [8, 9, 10]]
MAKE = """
import os, signal, sys, time
from pathlib import Path
from tuneline.core.stage.tables import SplitReader
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

class Slow(SplitReader):
    def batches(self, *arguments):
        for batch in super().batches(*arguments):
            yield batch
            print("begun", flush=True)
            time.sleep(float(sys.argv[2]))

split = TokenizedSplit.read(Slow.open(Path(sys.argv[1]), "train", "tokenize"))
print(split.values["input_ids"].tolist(), flush=True)
"""
"""Map a split, and wait after each of its files."""


def write(folder, *shards, types=0, labels=CLASSES):
    """Write a split with these rows in each file."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(shards):
        columns = {
            "input_ids": rows,
            "attention_mask": [[1] * len(row) for row in rows],
            "token_type_ids": [[types] * (len(row) - 1) + [0] * (len(row) > 0) for row in rows],
            LABELS: [index % 2 for index in range(len(rows))],
        }
        write_table(
            pa.table(columns, schema=tokenized_schema(True, labels)),
            shard_file(folder, "train", number, len(shards)),
        )
    return folder


def read(folder):
    return TokenizedSplit.read(SplitReader.open(folder, "train", "tokenize"))


def mapped_file(folder):
    (file,) = (folder.parent / f".{folder.name}.mapped").glob("train-*/input_ids")
    return file


def start(folder, seconds):
    command = [sys.executable, "-c", MAKE, str(folder), str(seconds)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def test_split_has_the_rows_of_all_files(tmp_path):
    split = read(write(tmp_path / "tokenized", ROWS, [], [[70_000]], types=1))
    assert list(split.values) == ["input_ids", "attention_mask", "token_type_ids"]
    assert split.values["input_ids"].tolist() == [5, 300, 7, 8, 9, 10, 70_000]
    assert split.values["attention_mask"].tolist() == [1] * 7
    assert split.values["token_type_ids"].tolist() == [1, 0, 0, 1, 1, 0, 0]
    assert (split.offsets.tolist(), split.offsets.dtype) == ([0, 2, 2, 3, 6, 7], np.int64)
    assert (split.labels.tolist(), split.labels.dtype) == ([0, 1, 0, 1, 0], np.int64)
    assert split.longest == 3
    assert not any(values.flags.writeable for values in split.values.values())

    regression = read(write(tmp_path / "numbers", ROWS, labels=Regression()))
    assert regression.labels.dtype == np.float32
    empty = read(write(tmp_path / "empty", []))
    assert (empty.values["input_ids"].tolist(), empty.offsets.tolist(), len(empty.labels)) == ([], [0], 0)


def test_map_is_replaced_when_the_content_changes_and_only_then(tmp_path):
    folder = write(tmp_path / "tokenized", ROWS)
    before = read(folder)
    file = mapped_file(folder)
    write(folder, ROWS)  # the same bytes in a new file
    assert read(folder).values["input_ids"].tolist() == before.values["input_ids"].tolist()
    assert mapped_file(folder) == file

    write(folder, [[1], [2]])
    assert read(folder).values["input_ids"].tolist() == [1, 2]
    # a process that uses the old map still has it
    assert before.values["input_ids"].tolist() == [5, 300, 7, 8, 9, 10]
    assert mapped_file(folder) != file


@pytest.mark.promise("killed-writer")
def test_killed_process_leaves_nothing_and_one_of_several_makes_the_map(tmp_path):
    folder = write(tmp_path / "tokenized", ROWS, ROWS)
    killed = start(folder, seconds=60)
    assert killed.stdout.readline() == "begun\n"
    waiting = start(folder, seconds=0.1)
    time.sleep(0.3)
    killed.send_signal(signal.SIGKILL)
    also_waiting = start(folder, seconds=0.1)
    printed = [process.communicate()[0].splitlines() for process in (waiting, also_waiting)]
    expected = str(read(folder).values["input_ids"].tolist())
    assert [lines[-1] for lines in printed] == [expected, expected]
    assert sorted(map(len, printed)) == [1, 3], "one has made it, from two files"
    assert len(list((tmp_path / ".tokenized.mapped").iterdir())) == 2, "the map, and the lock"
    killed.communicate()
