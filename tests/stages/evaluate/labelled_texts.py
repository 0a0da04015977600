"""Texts and labels of a raw split, in shards of two rows."""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stages.evaluate.behaviour import LabelledTexts
from tests.stages.tokenize.raw_splits import write_raw
from tuneline.core.tables import SplitReader, shard_file
from tuneline.tasks import Task
from tuneline.tasks.columns import column_of

SHARD = 2
_FOLDER = tempfile.TemporaryDirectory(prefix="tuneline-texts-")
_numbers = itertools.count()


def labelled_texts(texts: Sequence[Sequence[str]], labels: Sequence[Any], task: Task) -> LabelledTexts:
    """Write texts, one list for each of one or two columns, and return their reader with their labels."""
    folder, count = Path(_FOLDER.name, str(next(_numbers))), -(-len(labels) // SHARD)
    array = np.array(labels, task.label_dtype)
    column = column_of(task, array)
    for number in range(count):
        rows = slice(SHARD * number, SHARD * (number + 1))
        write_raw(
            shard_file(folder, "test", number, count), [text[rows] for text in texts], column[rows], task
        )
    columns = ["subject", "body"][: len(texts)]
    return LabelledTexts.of(SplitReader.open(folder, "test", "download"), columns, array, task)
