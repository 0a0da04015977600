"""Scalar columns of the tokenized splits, which Great Expectations checks instead of lists.

Checks of values in list columns raise inside Great Expectations, and checks of their uniqueness take quadratic time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from stages.validate.columns import Arrays, StoredColumns, column_writer
from stages.validate.rows import RaggedArray, files_of, read_batches
from stages.validate.tokenizer import Vocabulary
from tuneline.engines import map_tasks
from tuneline.files.schemas import LABELS
from tuneline.files.shards import SplitReader
from tuneline.params import RunParams
from tuneline.terminal import phase


@dataclass(frozen=True)
class TokenizedShard:
    """A file of a tokenized split, and where its columns are.

    Attributes:
        source: The file.
        vocabulary: Vocabulary of the tokenizer that wrote it.
        folder: The folder of the columns, which have the name of the file.
    """

    source: SplitReader
    vocabulary: Vocabulary
    folder: Path

    def derive(self) -> None:
        """Write the columns of ``batch_columns``, reading a batch of rows at a time."""
        phase(f"tokens of {self.source.paths[0].stem}")
        with column_writer(self.folder / self.source.paths[0].name) as write:
            for batch in read_batches(self.source):
                write(batch_columns(batch, self.vocabulary))


def read_tokenized(splits: Mapping[str, SplitReader], vocabulary: Vocabulary, folder: Path, run: RunParams) -> dict[str, StoredColumns]:
    """Derive the scalar columns of tokenized splits, one file at a time.

    Args:
        splits: The splits by name, with the expected schema.
        vocabulary: Vocabulary of the tokenizer that wrote them.
        folder: Folder of the columns, which all workers of the engine can write.
        run: The engine.
    """
    shards = [TokenizedShard(part, vocabulary, folder) for split in splits.values() for part in files_of(split)]
    for _ in map_tasks(TokenizedShard.derive, shards, run, name="tokens"):
        pass
    return {name: StoredColumns.of(SplitReader.open(folder, split.split, "validate")) for name, split in splits.items()}


def batch_columns(batch: pa.RecordBatch, vocabulary: Vocabulary) -> Arrays:
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
