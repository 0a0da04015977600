"""Encoding of texts into Arrow columns of token ids, with the Rust tokenizer and few batches in memory."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from tuneline.core.errors import DataError
from tuneline.core.tables import LABELS, ROW_GROUP

ENCODED_AT_A_TIME = 2_000
"""Rows per call of the Rust tokenizer.

Enough to use its threads, and few enough for memory: an encoding takes about 100 bytes per token.
"""
Texts = list[str] | list[tuple[str, ...]]
T = TypeVar("T")
SHOWN = 40
"""Characters of a text in a message."""


class EncodingError(DataError):
    """A tokenizer cannot encode a text, for example because its regular expression takes too many steps.

    Attributes:
        row: Position of the row in the texts that were to be encoded, to name its place.
    """

    row = 0

    def at(self, place: str) -> DataError:
        """Return the error with the file and row of the text."""
        return DataError(f"{place}: {self.problem}", self.hint)


def encode_batch(tokenizer: Tokenizer, texts: Texts, name: str) -> list[Encoding]:
    """Encode rows of one or two texts.

    Rust releases the global interpreter lock meanwhile, and no signal interrupts it.

    Args:
        tokenizer: A configured Rust tokenizer.
        texts: A list, as the tokenizer takes no other sequence.
        name: The file of the tokenizer, for the message.

    Raises:
        EncodingError: The tokenizer fails on a row.
    """
    try:
        encodings: list[Encoding] = tokenizer.encode_batch_fast(texts)
    except BaseException as error:
        if not _is_of_tokenizer(error):
            raise
        row = _failing_row(tokenizer, texts)  # the library does not say which one it is
        encoding_error = _describe(str(error), texts[row], name)
        encoding_error.row = row
        raise encoding_error from None
    return encodings


def _is_of_tokenizer(error: BaseException) -> bool:
    """Return True for errors of the tokenizers library, which have no class that can be imported.

    They are a bare ``Exception`` (the vocabulary has no unknown token), or a panic of Rust (a regular
    expression takes too many steps), which is no ``Exception``.
    """
    return type(error) is Exception or type(error).__name__ == "PanicException"


def _failing_row(tokenizer: Tokenizer, texts: Texts) -> int:
    """Return the position of the first row on which a tokenizer fails."""
    for row in range(len(texts)):
        try:
            tokenizer.encode_batch_fast(texts[row : row + 1])
        except BaseException as error:
            if not _is_of_tokenizer(error):
                raise
            return row
    raise AssertionError("the tokenizer failed on these rows together, and on none of them alone")


def _describe(reason: str, text: str | tuple[str, ...], name: str) -> EncodingError:
    """Return the error for a row that a tokenizer cannot encode.

    Only the hint quotes the row, because the problem is also shown to people who may not read the file.
    """
    longest = text if isinstance(text, str) else max(text, key=len)
    return EncodingError(
        f"the tokenizer {name} cannot encode this text of {len(longest):,} characters ({reason}).",
        f"It begins with {longest[:SHOWN]!r}. Shorten it or leave the row out; or train with another"
        " tokenizer (tokenize.tokenizer).",
    )


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

    def metrics(self, prefix: str = "") -> dict[str, float]:
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
        return {f"{prefix}{name}": value for name, value in values.items()}

    def __add__(self, other: "EncodingCounts") -> "EncodingCounts":
        return EncodingCounts(
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            special=self.special + other.special,
            unknown=self.unknown + other.unknown,
            truncated=self.truncated + other.truncated,
            longest=max(self.longest, other.longest),
        )


class Encoder:
    """Encodes rows of one or two texts, without padding.

    Rows are truncated to ``max_length`` tokens; of a pair, the longer text loses tokens first.

    A special token that stands in a text, such as ``[SEP]`` or ``</s>``, is text like any other: the model
    shall not take it for the end.
    """

    def __init__(self, tokenizer: FastTokenizer, max_length: int, pairs: bool) -> None:
        """Configure a copy of the Rust tokenizer; ``tokenizer`` itself does not change."""
        self._name = tokenizer.name_or_path
        self._rust = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._rust.encode_special_tokens = True
        self._rust.no_padding()

        # A row without text consists of the special tokens. They are counted before truncation is enabled,
        # which would refuse a ``max_length`` that has no room for them.
        self._rust.no_truncation()
        empty_row = ("", "") if pairs else ""
        template = self._rust.encode_batch_fast([empty_row])[0].ids
        self._special_per_row = len(template)
        self._unknown_id = -1  # which no token has
        if tokenizer.unk_token_id is not None:
            self._unknown_id = tokenizer.unk_token_id
        self._unknown_in_template = template.count(self._unknown_id)

        self._rust.enable_truncation(
            max_length, strategy="longest_first", direction=tokenizer.truncation_side
        )
        self._max_length = max_length
        self.token_type_ids = "token_type_ids" in tokenizer.model_input_names
        self.counts = EncodingCounts()

    def encode(self, texts: Texts) -> list[Encoding]:
        """Encode one chunk as ``encode_batch`` does, with its error."""
        return encode_batch(self._rust, texts, self._name)

    def columns(self, encodings: Sequence[Encoding]) -> dict[str, pa.ListArray]:
        """Convert encodings to columns, and add them to ``counts``."""
        lengths = np.fromiter(map(len, encodings), dtype=np.int32, count=len(encodings))
        offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(lengths, dtype=np.int32)])
        token_ids = (encoding.ids for encoding in encodings)
        ids = flat_array(token_ids, np.int32, int(offsets[-1]))
        self.counts += self._count(encodings, lengths, ids)

        values: dict[str, NDArray[Any]] = {
            "input_ids": ids,
            "attention_mask": np.ones(len(ids), dtype=np.int8),
        }
        if self.token_type_ids:
            type_ids = (encoding.type_ids for encoding in encodings)
            values["token_type_ids"] = flat_array(type_ids, np.int8, len(ids))
        return {name: pa.ListArray.from_arrays(offsets, pa.array(column)) for name, column in values.items()}

    def _count(
        self, encodings: Sequence[Encoding], lengths: NDArray[np.int32], ids: NDArray[Any]
    ) -> EncodingCounts:
        rows = len(encodings)
        unknown = int(np.count_nonzero(ids == self._unknown_id))
        return EncodingCounts(
            rows=rows,
            tokens=len(ids),
            special=rows * self._special_per_row,
            unknown=unknown - rows * self._unknown_in_template,
            truncated=truncated_rows(encodings, lengths, self._max_length),
            longest=int(lengths.max(initial=0)),
        )


def truncated_rows(encodings: Sequence[Encoding], lengths: NDArray[np.integer], max_length: int) -> int:
    """Return the number of rows that lost tokens; only a row of ``max_length`` tokens can be one of them."""
    truncated = 0
    for row in np.flatnonzero(lengths == max_length).tolist():
        if encodings[row].overflowing:
            truncated += 1
    return truncated


def pair_separators(tokenizer: FastTokenizer) -> tuple[int, int] | None:
    """Return the id of the separator, and how many separators are between the two texts of a pair.

    BERT writes one and RoBERTa two. They write a single text as first token, text, separator; and a pair as
    first token, first text, separators, second text, separator.

    Returns:
        ``None`` if the tokenizer joins texts in another way.
    """
    limit = 8  # any: the texts are empty
    empty_pair: list[tuple[str, ...]] = [("", "")]
    single = Encoder(tokenizer, limit, pairs=False).encode([""])[0].ids
    pair = Encoder(tokenizer, limit, pairs=True).encode(empty_pair)[0].ids
    if len(single) != 2 or len(pair) <= 2:
        return None

    first, separator = single
    separators = len(pair) - 1  # between the texts, and at the end
    if pair != [first] + [separator] * separators:
        return None
    return separator, separators - 1


def flat_array(lists: Iterator[list[int]], dtype: type[np.integer], count: int) -> NDArray[Any]:
    """Return the ``count`` numbers of all lists in one array."""
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=dtype, count=count)


def encode_rows(
    encoder: Encoder, rows: Iterator[pa.RecordBatch], text_columns: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Encode rows into batches of ``ROW_GROUP`` rows, and update the encoder's ``counts``.

    It is one chunk ahead of the consumer: Rust encodes while Python builds columns.

    Raises:
        EncodingError: The tokenizer fails on a row; its ``row`` counts from the first one.
    """
    ready: list[pa.RecordBatch] = []
    for encodings, labels in _prefetch(_encoded(encoder, rows, text_columns)):
        columns = encoder.columns(encodings)
        columns[LABELS] = labels
        ready.append(pa.record_batch([columns[name] for name in schema.names], schema=schema))
        if sum(map(len, ready)) == ROW_GROUP:
            yield pa.concat_batches(ready)
            ready.clear()
    if ready:
        yield pa.concat_batches(ready)


def _encoded(
    encoder: Encoder, rows: Iterator[pa.RecordBatch], text_columns: Sequence[str]
) -> Iterator[tuple[list[Encoding], pa.Array]]:
    """Yield the encodings and the labels of each chunk."""
    first_row = 0
    for chunk in _chunks(rows):
        columns = [chunk[name].to_pylist() for name in text_columns]
        texts: Texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        try:
            encodings = encoder.encode(texts)
        except EncodingError as error:
            error.row += first_row
            raise
        yield encodings, chunk[LABELS]
        first_row += len(chunk)


def _chunks(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches of any size into chunks of ``ENCODED_AT_A_TIME`` rows, which divides ``ROW_GROUP``."""
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        waiting.append(batch)
        while sum(map(len, waiting)) >= ENCODED_AT_A_TIME:
            joined = pa.concat_batches(waiting)
            waiting = [joined.slice(ENCODED_AT_A_TIME)]
            yield joined.slice(0, ENCODED_AT_A_TIME)
    if sum(map(len, waiting)):
        yield pa.concat_batches(waiting)


def _prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread computes the next one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item
