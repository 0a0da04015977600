"""The tokenizing of one raw file: a task of its own, for any process that sees the files of the project."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from tokenizers import Tokenizer

from stages.tokenize.rows import RawSplit
from tuneline.encoding import Counts, Encoder, encode_rows
from tuneline.files import replace_file, write_json
from tuneline.files.schemas import LABELS, tokenized_schema, write_batches
from tuneline.files.shards import SplitReader
from tuneline.terminal import Progress, progress


@dataclass(frozen=True)
class SavedTokenizer:
    """What an ``Encoder`` needs of a tokenizer, to be sent to another process.

    Attributes:
        path: Its ``tokenizer.json``.
    """

    path: Path
    truncation_side: str
    unk_token_id: int | None
    model_input_names: Sequence[str]

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The Rust tokenizer. A worker need not import transformers for it."""
        return Tokenizer.from_file(str(self.path))


@dataclass(frozen=True)
class Shard:
    """One file of a raw split, and what becomes of it.

    Attributes:
        split: Name of the split.
        raw: The raw file.
        tokenized: The file to write.
        counts: JSON file for its counts. It is written last: where it exists, the shard is finished.
        tokenizer: The tokenizer.
        text_columns: Names of the one or two text columns.
        max_length: Maximal number of tokens of a row.
    """

    split: str
    raw: Path
    tokenized: Path
    counts: Path
    tokenizer: SavedTokenizer
    text_columns: Sequence[str]
    max_length: int

    def __str__(self) -> str:
        return str(self.raw)


def tokenize_shard(shard: Shard) -> Counts:
    """Encode one raw file into a tokenized one, in bounded memory.

    Raises:
        DataError: The raw file is invalid.
    """
    source = RawSplit(SplitReader(shard.raw.parent, shard.split, (shard.raw,)), shard.text_columns)
    encoder = Encoder(shard.tokenizer, shard.max_length, pairs=len(shard.text_columns) == 2)
    schema = tokenized_schema(encoder.token_type_ids, source.labels)
    rows = source.batches([*shard.text_columns, LABELS])
    with progress(f"tokenize: {shard.raw.stem}", source.rows) as step, replace_file(shard.tokenized) as partial:
        write_batches(partial, schema, _counted(encode_rows(encoder, rows, shard.text_columns, schema), step))
    write_json(shard.counts, asdict(encoder.counts))
    return encoder.counts


def _counted(batches: Iterator[pa.RecordBatch], step: Progress) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        step.advance(batch.num_rows)
