"""Encoded rows as Arrow columns of token ids, and their counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tuneline.core.stage.tables import LABELS, WINDOW_LENGTHS
from tuneline.model.tokens.batches import RowWindows, TokenizedRows, row_offsets
from tuneline.model.tokens.encoding import EncodingError, InputEncoder, ModelInputs, Texts, flat_array
from tuneline.model.tokens.long_text import Answer, LongText

ENCODED_AT_A_TIME = 2_000
"""Rows per call of the Rust tokenizer.

Enough to use its threads, and few enough for memory: an encoding takes about 100 bytes per token.
"""


class FastTokenizer(Protocol):
    """A tokenizer of transformers, as far as an encoder needs it: importing the class takes seconds."""

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The Rust tokenizer."""

    @property
    def truncation_side(self) -> str:
        """``left`` or ``right``."""

    @property
    def unk_token_id(self) -> int | None:
        """Id of the unknown token, if it has one."""

    @property
    def model_input_names(self) -> Sequence[str]:
        """Names of the inputs of the model."""

    @property
    def name_or_path(self) -> str:
        """Its folder or file, for messages."""


@dataclass(frozen=True)
class EncodingCounts:
    """Counts over the rows of a split."""

    rows: int = 0
    tokens: int = 0
    """Tokens of all rows, special and unknown ones included."""
    special: int = 0
    """Special tokens."""
    unknown: int = 0
    """Unknown tokens."""
    truncated: int = 0
    """Rows that lost tokens."""
    longest: int = 0
    """Tokens of the longest row."""
    windows: int = 0
    """Windows of all rows; 0 if rows are not divided into windows."""

    def metrics(self) -> dict[str, float]:
        """Return flat metrics for ``metrics/tokenize.json``.

        ``unknown_rate`` is a share of the tokens without special tokens.
        """
        values = {
            "rows": self.rows,
            "tokens": self.tokens,
            "mean_tokens": self.tokens / max(self.rows, 1),
            "max_tokens": self.longest,
            "truncation_rate": self.truncated / max(self.rows, 1),
            "unknown_rate": self.unknown / max(self.tokens - self.special, 1),
        }
        if self.windows:
            values["mean_windows"] = self.windows / self.rows
        return values

    def __add__(self, other: "EncodingCounts") -> "EncodingCounts":
        return EncodingCounts(
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            special=self.special + other.special,
            unknown=self.unknown + other.unknown,
            truncated=self.truncated + other.truncated,
            longest=max(self.longest, other.longest),
            windows=self.windows + other.windows,
        )


class Encoder:
    """Encodes rows of one or two texts into columns, without padding.

    What becomes of rows of more than ``max_length`` tokens, ``long_text`` says. By default they are
    truncated.
    """

    def __init__(
        self, tokenizer: FastTokenizer, max_length: int, pairs: bool, long_text: LongText | None = None
    ) -> None:
        """Configure a copy of the Rust tokenizer; ``tokenizer`` itself does not change."""
        rust = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self.long_text = long_text or LongText()
        self._inputs = InputEncoder(
            rust, tokenizer.name_or_path, max_length, self.long_text, tokenizer.truncation_side
        )

        # A row without text consists of the special tokens.
        empty_row = ("", "") if pairs else ""
        template = rust.encode_batch_fast([empty_row])[0].ids
        self._special_per_input = len(template)
        self._unknown_id = -1  # which no token has
        if tokenizer.unk_token_id is not None:
            self._unknown_id = tokenizer.unk_token_id
        self._unknown_in_template = template.count(self._unknown_id)

        self.token_type_ids = "token_type_ids" in tokenizer.model_input_names
        self.counts = EncodingCounts()

    def encode(self, texts: Texts) -> ModelInputs:
        """Encode one chunk as ``InputEncoder.encode`` does, with its error."""
        return self._inputs.encode(texts)

    def columns(self, inputs: ModelInputs) -> dict[str, pa.ListArray]:
        """Convert encoded rows to columns, and add them to ``counts``.

        The windows of a row are one after the other; ``WINDOW_LENGTHS`` has their lengths.
        """
        # lengths of the inputs, and of the rows
        lengths = inputs.lengths.astype(np.int32)
        windows = inputs.windows
        first_inputs = row_offsets(windows)
        offsets = row_offsets(lengths)[first_inputs].astype(np.int32)

        ids = flat_array(inputs.token_ids(), np.int32, int(offsets[-1]))
        self.counts += self._count(inputs, np.diff(offsets), ids)
        values: dict[str, NDArray[Any]] = {
            "input_ids": ids,
            "attention_mask": np.ones(len(ids), dtype=np.int8),
        }
        if self.token_type_ids:
            values["token_type_ids"] = flat_array(inputs.type_ids(), np.int8, len(ids))
        columns = {}
        for name, column in values.items():
            columns[name] = pa.ListArray.from_arrays(offsets, pa.array(column))
        if self.long_text.windows is not None:
            columns[WINDOW_LENGTHS] = pa.ListArray.from_arrays(
                first_inputs.astype(np.int32), pa.array(lengths)
            )
        return columns

    def _count(self, inputs: ModelInputs, lengths: NDArray[np.int32], ids: NDArray[Any]) -> EncodingCounts:
        """Count rows of these numbers of tokens, ``(rows,)``."""
        input_count = int(inputs.windows.sum())
        unknown = int(np.count_nonzero(ids == self._unknown_id))
        return EncodingCounts(
            rows=len(lengths),
            tokens=len(ids),
            special=input_count * self._special_per_input,
            unknown=unknown - input_count * self._unknown_in_template,
            truncated=inputs.truncated,
            longest=int(lengths.max(initial=0)),
            windows=0 if self.long_text.windows is None else input_count,
        )


def pair_separators(tokenizer: FastTokenizer) -> tuple[int, int] | None:
    """Return the id of the separator, and how many separators are between the two texts of a pair.

    BERT writes one and RoBERTa two. They write a single text as first token, text, separator; and a pair as
    first token, first text, separators, second text, separator.

    Returns:
        ``None`` if the tokenizer joins texts in another way.
    """
    limit = 8  # any: the texts are empty
    empty_pair: list[tuple[str, ...]] = [("", "")]
    single = list(next(Encoder(tokenizer, limit, pairs=False).encode([""]).token_ids()))
    pair = list(next(Encoder(tokenizer, limit, pairs=True).encode(empty_pair).token_ids()))
    if len(single) != 2 or len(pair) <= 2:
        return None

    first, separator = single
    separators = len(pair) - 1  # between the texts, and at the end
    if pair != [first] + [separator] * separators:
        return None
    return separator, separators - 1


def encode_rows(
    encoder: Encoder, rows: Iterator[pa.RecordBatch], text_columns: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Encode chunks of rows, and update the encoder's ``counts``.

    Raises:
        EncodingError: The tokenizer fails on a row; its ``row`` counts from the first one.
    """
    first_row = 0
    for chunk in rows:
        columns = [chunk[name].to_pylist() for name in text_columns]
        texts: Texts = columns[0]
        if len(columns) == 2:
            texts = list(zip(*columns, strict=True))
        try:
            encoded: dict[str, pa.Array] = dict(encoder.columns(encoder.encode(texts)))
        except EncodingError as error:
            error.row += first_row
            raise
        encoded[LABELS] = chunk[LABELS]
        yield pa.record_batch([encoded[name] for name in schema.names], schema=schema)
        first_row += chunk.num_rows


def tokenized_rows(columns: Mapping[str, pa.ListArray], answer: Answer | None) -> TokenizedRows:
    """Return the rows in columns as an ``Encoder`` makes them; ``answer`` of rows that have windows."""
    offsets = columns["input_ids"].offsets.to_numpy().astype(np.int64)
    values = {}
    for name, column in columns.items():
        if name != WINDOW_LENGTHS:
            values[name] = column.values.to_numpy()
    windows = None
    if answer is not None:
        window_lengths = columns[WINDOW_LENGTHS]
        first = window_lengths.offsets.to_numpy().astype(np.int64)
        windows = RowWindows(first, row_offsets(window_lengths.values.to_numpy()), answer)
    return TokenizedRows(values, offsets, windows=windows)
