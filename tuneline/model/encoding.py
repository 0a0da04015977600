"""Encoding of texts into Arrow columns of token ids, with the Rust tokenizer and only a few batches in memory."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from tuneline.core.tables import LABELS, ROW_GROUP

CHUNK = 2_000
"""Rows per call of the Rust tokenizer: enough to use its threads, few enough for memory (about 100 bytes per token)."""
Texts = list[str] | list[tuple[str, ...]]
T = TypeVar("T")


class FastTokenizer(Protocol):
    """What an encoder needs of a tokenizer of transformers, which takes seconds to import."""

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


@dataclass(frozen=True)
class Counts:
    """Counts over the rows of a split: tokens, among them special and unknown ones, rows that lost tokens, and the longest row."""

    rows: int = 0
    tokens: int = 0
    special: int = 0
    unknown: int = 0
    truncated: int = 0
    longest: int = 0

    def metrics(self, prefix: str = "") -> dict[str, float]:
        """Return flat metrics for ``metrics/tokenize.json``. ``unknown_rate`` is a share of the tokens without special tokens."""
        values = {
            "rows": self.rows,
            "tokens": self.tokens,
            "mean_tokens": self.tokens / max(self.rows, 1),
            "max_tokens": self.longest,
            "truncation_rate": self.truncated / max(self.rows, 1),
            "unknown_rate": self.unknown / max(self.tokens - self.special, 1),
        }
        return {f"{prefix}{name}": value for name, value in values.items()}

    def __add__(self, other: "Counts") -> "Counts":
        longest = max(self.longest, other.longest)
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Counts(**{**sums, "longest": longest})


class Encoder:
    """Encodes rows of one or two texts: truncated to ``max_length``, the longer text of a pair first, and not padded.

    A special token that stands in a text, such as ``[SEP]`` or ``</s>``, is text like any other: the model shall not take it for the end.
    """

    def __init__(self, tokenizer: FastTokenizer, max_length: int, pairs: bool) -> None:
        """Configure a copy of the Rust tokenizer; ``tokenizer`` itself does not change."""
        self._rust = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._rust.encode_special_tokens = True
        self._rust.no_padding()
        self._rust.no_truncation()
        empty = self._rust.encode_batch_fast([("", "") if pairs else ""])[0].ids
        self._rust.enable_truncation(max_length, strategy="longest_first", direction=tokenizer.truncation_side)
        self._max_length = max_length
        self._unknown_id = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        self._special_per_row = len(empty)
        self._unknown_in_template = empty.count(self._unknown_id)
        self.token_type_ids = "token_type_ids" in tokenizer.model_input_names
        self.counts = Counts()

    def encode(self, texts: Texts) -> list[Encoding]:
        """Encode one chunk. Rust releases the global interpreter lock meanwhile."""
        encodings: list[Encoding] = self._rust.encode_batch_fast(texts)
        return encodings

    def columns(self, encodings: Sequence[Encoding]) -> dict[str, pa.ListArray]:
        """Convert encodings to columns, and add them to ``counts``."""
        lengths = np.fromiter(map(len, encodings), dtype=np.int32, count=len(encodings))
        offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(lengths, dtype=np.int32)])
        ids = flat((encoding.ids for encoding in encodings), np.int32, int(offsets[-1]))
        self.counts += self._count(encodings, lengths, ids)
        values: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": np.ones(len(ids), dtype=np.int8)}
        if self.token_type_ids:
            values["token_type_ids"] = flat((encoding.type_ids for encoding in encodings), np.int8, len(ids))
        return {name: pa.ListArray.from_arrays(offsets, pa.array(column)) for name, column in values.items()}

    def _count(self, encodings: Sequence[Encoding], lengths: NDArray[np.int32], ids: NDArray[Any]) -> Counts:
        rows = len(encodings)
        full = np.flatnonzero(lengths == self._max_length).tolist()
        return Counts(
            rows=rows,
            tokens=len(ids),
            special=rows * self._special_per_row,
            unknown=int(np.count_nonzero(ids == self._unknown_id)) - rows * self._unknown_in_template,
            truncated=sum(bool(encodings[row].overflowing) for row in full),
            longest=int(lengths.max(initial=0)),
        )


def pair_separators(tokenizer: FastTokenizer) -> tuple[int, int] | None:
    """Return the id of the separator, and how many are between two texts, if a tokenizer joins them as BERT (1) or RoBERTa (2) does.

    They write one token, the first text, separators, the second text, one separator; and a single text without what is between.
    """
    limit = 8  # any: the texts are empty
    two: list[tuple[str, ...]] = [("", "")]
    single, pair = Encoder(tokenizer, limit, pairs=False).encode([""])[0].ids, Encoder(tokenizer, limit, pairs=True).encode(two)[0].ids
    joined_alike = len(single) == 2 and len(pair) > 2 and pair == [single[0], *[single[1]] * (len(pair) - 1)]
    return (single[1], len(pair) - 2) if joined_alike else None


def flat(lists: Iterator[list[int]], dtype: type[np.integer], count: int) -> NDArray[Any]:
    """Return the numbers of all lists, of which there are ``count``."""
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=dtype, count=count)


def encode_rows(
    encoder: Encoder, rows: Iterator[pa.RecordBatch], text_columns: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Encode rows into batches of ``ROW_GROUP``, one chunk ahead of the consumer: Rust encodes while Python builds columns.

    The encoder's ``counts`` are updated.
    """
    texts = (([chunk[name].to_pylist() for name in text_columns], chunk[LABELS]) for chunk in _chunks(rows))
    encoded = ((encoder.encode(list(zip(*found, strict=True)) if len(found) > 1 else found[0]), labels) for found, labels in texts)
    ready: list[pa.RecordBatch] = []
    for encodings, labels in _prefetch(encoded):
        columns = {**encoder.columns(encodings), LABELS: labels}
        ready.append(pa.record_batch([columns[name] for name in schema.names], schema=schema))
        if sum(map(len, ready)) == ROW_GROUP:
            yield pa.concat_batches(ready)
            ready.clear()
    if ready:
        yield pa.concat_batches(ready)


def _chunks(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches of any size into chunks of ``CHUNK`` rows, which divides ``ROW_GROUP``."""
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        waiting.append(batch)
        while sum(map(len, waiting)) >= CHUNK:
            joined = pa.concat_batches(waiting)
            waiting = [joined.slice(CHUNK)]
            yield joined.slice(0, CHUNK)
    if sum(map(len, waiting)):
        yield pa.concat_batches(waiting)


def _prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread computes the next one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item
