import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import ROOT
from tuneline.core.tables import LABELS, SplitReader, shard_file, write_table
from tuneline.model.tokenized_splits import TokenMap
from tuneline.tasks import Classification, Regression
from tuneline.tasks.schemas import tokenized_schema

CLASSES = Classification(("no", "yes"))
ROWS = [[5, 300], [], [7], [8, 9, 10]]
MAKE = """
import os, signal, sys, time
from pathlib import Path
from tuneline.core.tables import SplitReader
from tuneline.model.tokenized_splits import TokenMap

class Slow(SplitReader):
    def batches(self, *arguments):
        for batch in super().batches(*arguments):
            yield batch
            print("begun", flush=True)
            time.sleep(float(sys.argv[2]))

token_map = TokenMap.open(Slow.open(Path(sys.argv[1]), "train", "tokenize"))
print(token_map.values["input_ids"].tolist(), flush=True)
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
    return TokenMap.open(SplitReader.open(folder, "train", "tokenize"))


def inode(folder):
    return (folder.parent / f".{folder.name}.mapped/train").stat().st_ino


def start(folder, seconds):
    command = [sys.executable, "-c", MAKE, str(folder), str(seconds)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def test_map_has_the_rows_of_all_files_in_the_smallest_types(tmp_path):
    tokens = read(write(tmp_path / "tokenized", ROWS, [], [[70_000]], types=1))
    assert list(tokens.values) == ["input_ids", "attention_mask", "token_type_ids"]
    assert tokens.values["input_ids"].tolist() == [5, 300, 7, 8, 9, 10, 70_000]
    assert tokens.values["attention_mask"].tolist() == [1] * 7
    assert tokens.values["token_type_ids"].tolist() == [1, 0, 0, 1, 1, 0, 0]
    assert (tokens.offsets.tolist(), tokens.offsets.dtype) == ([0, 2, 2, 3, 6, 7], np.int64)
    assert (tokens.labels.tolist(), tokens.labels.dtype) == ([0, 1, 0, 1, 0], np.int64)
    assert (tokens.longest, tokens.highest) == (3, 70_000)
    assert [values.dtype for values in tokens.values.values()] == [np.uint32, np.int8, np.uint8]
    assert tokens.values["attention_mask"].strides == (0,), "values that are all the same take no memory"
    assert not any(
        array.flags.writeable for array in (*tokens.values.values(), tokens.offsets, tokens.labels)
    )

    regression = read(write(tmp_path / "numbers", ROWS, labels=Regression()))
    assert (regression.labels.dtype, regression.values["input_ids"].dtype) == (np.float32, np.uint16)
    empty = read(write(tmp_path / "empty", []))
    assert (empty.values["input_ids"].tolist(), empty.offsets.tolist(), empty.labels.tolist()) == (
        [],
        [0],
        [],
    )


def test_map_is_replaced_when_the_content_changes_and_only_then(tmp_path):
    folder = write(tmp_path / "tokenized", ROWS)
    before, first = read(folder), inode(folder)
    write(folder, ROWS)  # the same bytes in a new file
    assert read(folder).values["input_ids"].tolist() == before.values["input_ids"].tolist()
    assert inode(folder) == first

    write(folder, [[1], [2]])
    assert read(folder).values["input_ids"].tolist() == [1, 2]
    assert before.values["input_ids"].tolist() == [
        5,
        300,
        7,
        8,
        9,
        10,
    ], "the old map stays for a process that uses it"
    mapped = tmp_path / ".tokenized.mapped"
    assert sorted(path.name for path in mapped.iterdir()) == ["train", "train.lock"]

    os.truncate(mapped / "train", 100)
    assert read(folder).values["input_ids"].tolist() == [1, 2]


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
    assert sorted(path.name for path in (tmp_path / ".tokenized.mapped").iterdir()) == ["train", "train.lock"]
    killed.communicate()
