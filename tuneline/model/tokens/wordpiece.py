"""The tokenizer that is trained on raw texts, and the encoding of each raw file.

Only training a tokenizer imports transformers: a worker that encodes does not wait for it.
"""

import math
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import progress
from tuneline.core.stage.tables import (
    LABELS,
    SplitReader,
    StoredLabels,
    rebatch,
    tokenized_split_schema,
    write_batches,
)
from tuneline.model.tokens.encoded_columns import ENCODED_AT_A_TIME, Encoder, EncodingCounts, encode_rows
from tuneline.model.tokens.encoding import EncodingError
from tuneline.model.tokens.long_text import LongText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def training_texts(reader: SplitReader, text_columns: Sequence[str], at_most: int) -> Iterator[list[str]]:
    """Yield the texts of a raw split in batches, one column of a batch after the other.

    Of more than ``at_most`` rows, every second, third, ... is read, so they are from all parts of the split.
    """
    step = max(math.ceil(reader.rows / at_most), 1)
    first = 0  # row of the split with which the batch begins
    for batch in reader.batches(text_columns):
        offset = -first % step  # to the next multiple of ``step``
        for name in text_columns:
            yield batch[name].to_pylist()[offset::step]
        first += batch.num_rows


PAD = "[PAD]"
UNK = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
"""Special tokens in the order of their ids, from 0."""
ALPHABET_LIMIT = 1000
"""Characters that the vocabulary has at most."""
TRAINING_ROWS = 1_000_000
"""Rows that the tokenizer is trained on at most.

The trainer keeps about 1 KB for each distinct word of them.
"""
MIN_FREQUENCY = 2
"""Pairs of pieces that occur less often are not merged."""
_ISOLATED = frozenset(string.punctuation) | {chr(point) for point in range(0x4E00, 0xA000)}
"""Characters that the BERT pre-tokenizer always separates: ASCII punctuation and Chinese characters."""

TextBatches = Callable[[], Iterator[Sequence[str]]]
"""Returns an iterator over batches of texts. It is called once per pass over the data."""


def train_wordpiece(texts: TextBatches, vocab_size: int) -> "PreTrainedTokenizerFast":
    """Train a tokenizer that normalizes text as ``bert-base-uncased`` does (lower case, no accents).

    Texts that are all blank are refused.
    """
    from transformers import PreTrainedTokenizerFast

    # each character takes two entries: one at the beginning of a word, and one inside of it
    limit = min(ALPHABET_LIMIT, (vocab_size - len(SPECIAL_TOKENS)) // 2)
    characters = alphabet(texts, limit)
    if not characters:
        raise DataError(
            "The texts of the train split are empty, so no tokenizer can be trained on them.",
            "Check data.text_columns and data.splits.train.",
        )
    vocabulary = learn_vocabulary(texts, vocab_size, characters)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=assemble(models.WordPiece(vocab=vocabulary, unk_token=UNK)),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )


def alphabet(texts: TextBatches, limit: int) -> list[str]:
    """Return the most frequent characters of the normalized texts, at most ``limit``, by code point."""
    normalizer = normalizers.BertNormalizer(lowercase=True)

    # count by code point: in UTF-32, each character is its code point
    counts = np.zeros(0x110000, dtype=np.int64)
    for batch in texts():
        normalized = "".join(map(normalizer.normalize_str, batch))
        points = np.frombuffer(normalized.encode("utf-32-le"), dtype=np.uint32)
        batch_counts = np.bincount(points)
        counts[: len(batch_counts)] += batch_counts

    # the most frequent ones; of equally frequent ones, the lower code point
    characters: list[str] = []
    for point in np.argsort(-counts, kind="stable"):
        if counts[point] == 0 or len(characters) == limit:
            break
        character = chr(point)
        if not character.isspace():
            characters.append(character)
    return sorted(characters)


def learn_vocabulary(texts: TextBatches, vocab_size: int, characters: Sequence[str]) -> dict[str, int]:
    """Train and return the ids of the pieces.

    The trainer numbers continuation pieces ("##a") in the order of a hash table, which differs between
    processes, and breaks ties by these numbers. Passing them as special tokens fixes their numbers.
    """
    inner = [f"##{character}" for character in characters if character not in _ISOLATED]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=list(characters),
        limit_alphabet=len(characters),
        special_tokens=[*SPECIAL_TOKENS, *inner],
        show_progress=False,
    )
    tokenizer = assemble(models.WordPiece(unk_token=UNK), post_process=False)
    tokenizer.train_from_iterator(texts(), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary


def assemble(model: models.WordPiece, post_process: bool = True) -> Tokenizer:
    """Add BERT's normalizer, pre-tokenizer and template to a model."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if post_process:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{CLS} $A {SEP}",
            pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
            special_tokens=[(CLS, SPECIAL_TOKENS.index(CLS)), (SEP, SPECIAL_TOKENS.index(SEP))],
        )
    return tokenizer


def check_length(max_length: int, limit: int | None, special_tokens: int, texts: int) -> None:
    """Check that ``tokenize.max_length`` suits the model, and has room for one token of each text.

    Args:
        max_length: The parameter.
        limit: Tokens that the model takes; ``None`` if unlimited or unknown.
        special_tokens: Special tokens of a row.
        texts: Texts of a row.
    """
    if limit is not None and max_length > limit:
        raise ParamsError(
            f"tokenize.max_length: {max_length} is more than the {limit} tokens that the model takes.",
            f"Set it to {limit} or less, or give a model made from scratch more:"
            " model.config.max_position_embeddings.",
        )
    if max_length < special_tokens + texts:
        raise ParamsError(
            f"tokenize.max_length: {max_length} is too short: a row has {special_tokens} special tokens and"
            f" {texts} text(s).",
            f"Set it to {special_tokens + texts} or more.",
        )


def check_stride(stride: int, max_length: int, special_tokens: int) -> None:
    """Check that a window has room for more tokens of a text than it shares with the one before it."""
    room = max_length - special_tokens
    if stride >= room:
        raise ParamsError(
            f"tokenize.windows.stride: {stride} leaves nothing new for the next window: of max_length"
            f" {max_length}, {special_tokens} tokens are special and {room} of the text.",
            f"Set it to {room // 2} or less.",
        )


@dataclass(frozen=True)
class SavedTokenizer:
    """What an ``Encoder`` needs of a tokenizer, to be sent to another process.

    ``path`` is its ``tokenizer.json``.
    """

    path: Path
    truncation_side: str
    unk_token_id: int | None
    model_input_names: Sequence[str]

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The Rust tokenizer. A worker need not import transformers for it."""
        return Tokenizer.from_file(str(self.path))

    @property
    def name_or_path(self) -> str:
        """Its file."""
        return str(self.path)


@dataclass(frozen=True)
class Shard:
    """One file of a raw split, and what becomes of it."""

    split: str
    raw: Path
    tokenized: Path
    tokenizer: SavedTokenizer
    text_columns: Sequence[str]
    max_length: int
    long_text: LongText

    def __str__(self) -> str:
        return str(self.raw)


def tokenize_shard(shard: Shard) -> EncodingCounts:
    """Encode one raw file into a tokenized one, in bounded memory."""
    raw = SplitReader(shard.raw.parent, shard.split, (shard.raw,))
    pairs = len(shard.text_columns) == 2
    encoder = Encoder(shard.tokenizer, shard.max_length, pairs, shard.long_text)
    labels = StoredLabels.of(raw.schema)
    schema = tokenized_split_schema(encoder.token_type_ids, labels, shard.long_text.answer)
    columns = list(shard.text_columns)
    columns.append(LABELS)
    chunks = rebatch(raw.batches(columns), raw.fields(columns), ENCODED_AT_A_TIME)
    with (
        progress(f"tokenize: {shard.raw.stem}", raw.rows) as step,
        replace_file(shard.tokenized) as partial,
    ):

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in encode_rows(encoder, chunks, shard.text_columns, schema):
                yield batch
                step.advance(batch.num_rows)

        try:
            write_batches(partial, schema, rebatch(counted(), schema))
        except EncodingError as error:
            raise error.at(raw.place(error.row)) from None
    return encoder.counts
