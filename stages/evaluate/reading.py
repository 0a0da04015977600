"""The reported split, tokenized and as text."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED


def read_split(path: Path) -> TokenizedSplit:
    """Reads the tokenized rows.

    Raises:
        DataError: There are none, or some have no label.
    """
    split = TokenizedSplit.read(path)
    if len(split) == 0:
        raise DataError(f"{path} has no rows.", "Report on another split (evaluate.split), or give this one rows (data.splits).")
    unlabelled = np.flatnonzero(split.labels == UNLABELLED)
    if len(unlabelled) == len(split) or (len(unlabelled) and not split.label_schema.is_regression):  # -1 can be a number to predict
        raise DataError(
            f"{path}: {len(unlabelled)} of {len(split)} rows have no label, the first is row {unlabelled[0]}.",
            "Report on a split with labels: evaluate.split.",
        )
    return split


def read_texts(path: Path, text_columns: Sequence[str], rows: int) -> list[list[str]]:
    """Reads the texts of the same rows, one list for each column.

    Args:
        path: The raw split.
        text_columns: One or two.
        rows: How many there must be.

    Raises:
        DataError: The file has others.
    """
    known = pq.read_schema(path).names
    missing = [name for name in text_columns if name not in known]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; it has {', '.join(known)}.", "Check data.text_columns.")
    table = pq.read_table(path, columns=list(text_columns))
    if table.num_rows != rows:
        raise DataError(f"{path} has {table.num_rows} rows, the tokenized split has {rows}.", "Run `dvc repro tokenize`.")
    return [table[name].to_pylist() for name in text_columns]


def read_places(path: Path, source: Path, split: str) -> tuple[str, NDArray[np.int64]]:
    """What the split was drawn from, as in ``data.splits``, and the row numbers there.

    Args:
        path: The raw split.
        source: ``data/raw/source.json``; where it does not say, the specification is empty.
        split: Its name.
    """
    said = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else {}
    specification = said.get("splits", {}).get(split, {}).get("from", "")
    return specification, pq.read_table(path, columns=["idx"])["idx"].to_numpy()
