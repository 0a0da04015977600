"""Scalar columns of the tokenized splits, which Great Expectations checks instead of lists.

Checks of values in list columns raise inside Great Expectations, and checks of their uniqueness take quadratic time.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from stages.validate.rows import RaggedArray, read_batches
from stages.validate.tokenizer import Vocabulary
from tuneline.files.schemas import LABELS

Columns = Mapping[str, NDArray[np.generic]]


def tokenized_columns(path: Path, vocabulary: Vocabulary) -> pd.DataFrame:
    """Derive the scalar columns of one tokenized split in batches of rows.

    Args:
        path: A file of ``data/tokenized/`` with the expected schema.
        vocabulary: Vocabulary of the tokenizer that wrote it.

    Returns:
        One row per row: ``row``, and the columns of ``batch_columns``.
    """
    parts = [batch_columns(batch, vocabulary) for batch in read_batches(path)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return pd.DataFrame({"row": np.arange(len(columns["tokens"])), **columns}, copy=False)


def batch_columns(batch: pa.RecordBatch, vocabulary: Vocabulary) -> Columns:
    """Return the scalar columns of a batch, each of shape ``(rows,)``."""
    ids, mask = RaggedArray.of(batch["input_ids"]), RaggedArray.of(batch["attention_mask"])
    out_of_vocabulary = (ids.values < 0) | (ids.values > vocabulary.largest_id)
    special = ids.count(vocabulary.is_special()[np.where(out_of_vocabulary, vocabulary.largest_id + 1, ids.values)])
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
        types = RaggedArray.of(batch["token_type_ids"])
        columns |= {
            "type_tokens": types.lengths,
            "smallest_type": types.smallest(),
            "largest_type": types.largest(),
            "type_drops": types.drops(),
        }
    return columns
