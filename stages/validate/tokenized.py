"""Scalar columns of the tokenized splits: what Great Expectations judges instead of lists.

Value checks on list columns raise inside Great Expectations, and uniqueness on them is quadratic.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.validate.segments import Segments
from stages.validate.vocabulary import Vocabulary
from tuneline.files.schemas import LABELS

BATCH_ROWS = 65_536
Columns = Mapping[str, NDArray[np.generic]]


def tokenized_features(path: Path, vocabulary: Vocabulary) -> pd.DataFrame:
    """Derives the scalar columns of one tokenized split, a batch of rows at a time.

    Args:
        path: A file of ``data/tokenized/`` with the columns that it should have.
        vocabulary: Of the tokenizer that wrote it.

    Returns:
        One row per row: ``row``, ``tokens`` and the rest of ``batch_features``.
    """
    parts = [batch_features(batch, vocabulary) for batch in _batches(path)]
    names = parts[0].keys()
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return pd.DataFrame({"row": np.arange(len(columns["tokens"])), **columns}, copy=False)


def batch_features(batch: pa.RecordBatch, vocabulary: Vocabulary) -> Columns:
    """The scalar columns of some rows, each of shape ``[rows]``."""
    ids, mask = Segments.of(batch["input_ids"]), Segments.of(batch["attention_mask"])
    largest = vocabulary.largest_id
    known = np.where((ids.values < 0) | (ids.values > largest), largest + 1, ids.values)
    special = ids.count(vocabulary.is_special()[known])
    columns = {
        "tokens": ids.lengths,
        "smallest_id": ids.smallest(),
        "largest_id": ids.largest(),
        "first_id": ids.first(),
        "last_id": ids.last(),
        "special_tokens": special,
        "content_tokens": ids.lengths - special,
        "unknown_tokens": ids.count(ids.values == vocabulary.unknown_id),
        "mask_tokens": mask.lengths,
        "smallest_mask": mask.reduce(np.minimum, mask.values, 1),
        "largest_mask": mask.reduce(np.maximum, mask.values, 1),
        LABELS: batch[LABELS].to_numpy(zero_copy_only=False),
    }
    if "token_type_ids" in batch.schema.names:
        types = Segments.of(batch["token_type_ids"])
        columns |= {
            "type_tokens": types.lengths,
            "smallest_type": types.smallest(),
            "largest_type": types.largest(),
            "type_drops": types.drops(),
        }
    return columns


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """At least one batch, so that a split without rows has its columns all the same."""
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows == 0:
            yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
        yield from file.iter_batches(batch_size=BATCH_ROWS)
