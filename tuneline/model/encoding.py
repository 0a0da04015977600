"""Encoding of texts into Arrow columns of token ids, with the Rust tokenizer and few batches in memory."""

import itertools
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from tuneline.core.tables import LABELS, ROW_GROUP, WINDOW_LENGTHS
from tuneline.model.long_text import Cut, LongText, cut_head_and_tail, cut_windows
from tuneline.model.readable_text import ReadableText
from tuneline.model.row_offsets import row_offsets
from tuneline.model.tokenizer_errors import is_tokenizer_error
from tuneline.runtime.errors import DataError

ENCODED_AT_A_TIME = 2_000
"""Rows per call of the Rust tokenizer.

Enough to use its threads, and few enough for memory: an encoding takes about 100 bytes per token.
"""
ENCODED_CHARACTERS = 1 << 19
"""Characters from which a call of the Rust tokenizer has no more rows, however few it has.

It takes 100 to 200 bytes of memory for each character.
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

    @classmethod
    def of_row(cls, row: int, problem: str, hint: str | None) -> Self:
        """Return the error of a row."""
        error = cls(problem, hint)
        error.row = row
        return error

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
        if not is_tokenizer_error(error):
            raise
        row = _failing_row(tokenizer, texts)  # the library does not say which one it is
        raise _describe(row, str(error), texts[row], name) from None
    return encodings


def _failing_row(tokenizer: Tokenizer, texts: Texts) -> int:
    """Return the position of the first row on which a tokenizer fails."""
    for row in range(len(texts)):
        try:
            tokenizer.encode_batch_fast(texts[row : row + 1])
        except BaseException as error:
            if not is_tokenizer_error(error):
                raise
            return row
    raise AssertionError("the tokenizer failed on these rows together, and on none of them alone")


def _describe(row: int, reason: str, text: str | tuple[str, ...], name: str) -> EncodingError:
    """Return the error for a row that a tokenizer cannot encode.

    Only the hint quotes the row, because the problem is also shown to people who may not read the file.
    """
    longest = text if isinstance(text, str) else max(text, key=len)
    return EncodingError.of_row(
        row,
        f"the tokenizer {name} cannot encode this text of {len(longest):,} characters ({reason}).",
        f"It begins with {longest[:SHOWN]!r}. Shorten it or leave the row out; or train with another"
        " tokenizer (tokenize.tokenizer).",
    )


@dataclass(frozen=True)
class KeptTokens:
    """The tokens of an input of the model that was cut out of an encoded row, with little memory."""

    ids: "array[int]"
    type_ids: "array[int]"

    @classmethod
    def of(cls, encoding: Encoding, cuts: Sequence[Cut]) -> list[Self]:
        """Return the inputs that are cut out of a row."""
        ids = encoding.ids
        type_ids = encoding.type_ids
        inputs = []
        for cut in cuts:
            kept = cls(array("i"), array("i"))
            for part in cut:
                kept.ids.extend(ids[part])
                kept.type_ids.extend(type_ids[part])
            inputs.append(kept)
        return inputs

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class ModelInputs:
    """What encoded rows are to the model: each is one input, or one for each of its windows.

    Attributes:
        inputs: The inputs, one row after the other.
        window_counts: Number of inputs of each row.
        truncated: Number of rows of which the model does not read all tokens.
    """

    inputs: list[Encoding | KeptTokens] = field(default_factory=list)
    window_counts: list[int] = field(default_factory=list)
    truncated: int = 0

    @property
    def windows(self) -> NDArray[np.int64]:
        """Number of inputs of each row, shape ``(rows,)``."""
        return np.array(self.window_counts, dtype=np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each input, one row after the other; shape ``(inputs,)``."""
        return np.fromiter(map(len, self.inputs), dtype=np.int64, count=len(self.inputs))

    def token_ids(self) -> Iterator[Sequence[int]]:
        """Yield the token ids of each input."""
        return (tokens.ids for tokens in self.inputs)

    def type_ids(self) -> Iterator[Sequence[int]]:
        """Yield the token type ids of each input."""
        return (tokens.type_ids for tokens in self.inputs)


class InputEncoder:
    """Encodes rows of one or two texts as inputs of a model.

    What becomes of rows of more than ``max_length`` tokens, ``long_text`` says. Of a pair, the longer text
    loses tokens first. A special token that stands in a text, such as ``[SEP]`` or ``</s>``, is text like any
    other: the model shall not take it for the end.
    """

    def __init__(
        self, tokenizer: Tokenizer, name: str, max_length: int, long_text: LongText, truncation_side: str
    ) -> None:
        """Configure a tokenizer, which changes.

        Args:
            tokenizer: A Rust tokenizer that only this encoder has.
            name: Its file, for messages.
            max_length: Tokens that the model reads at once, special tokens included.
            long_text: What becomes of longer rows.
            truncation_side: Side at which a truncated text loses tokens: ``left`` or ``right``.
        """
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        # The library would keep all tokens that it cuts off, of a pair the product of both numbers of cuts.
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.name = name
        self.max_length = max_length
        self.long_text = long_text
        self.truncation_side = truncation_side
        self._readable = ReadableText(tokenizer, long_text, max_length, truncation_side)

    def encode(self, texts: Texts) -> ModelInputs:
        """Encode rows, with few long ones in memory.

        Raises:
            EncodingError: The tokenizer fails on a row, or the shorter text of a pair leaves no room for
                windows of the longer one.
        """
        inputs = ModelInputs()
        for start, group in self._groups(texts):
            try:
                encodings = encode_batch(self.tokenizer, group, self.name)
                for row, encoding in enumerate(encodings):
                    self._add(inputs, row, encoding)
            except EncodingError as error:
                error.row += start
                raise
        return inputs

    def readable(self, row: Sequence[str]) -> Sequence[str]:
        """Return the texts of a row without what the model does not read of big ones."""
        return self._readable.of_row(row)

    def windows(self, encoding: Encoding) -> tuple[list[Cut], bool]:
        """Divide a row into its windows; return them, and whether the row was truncated.

        Raises:
            DataError: The shorter text of a pair leaves too little room for the longer one.
        """
        if self.long_text.windows is None or len(encoding) <= self.max_length:
            return [(slice(0, len(encoding)),)], False
        return cut_windows(encoding, self.max_length, self.long_text.windows, self.truncation_side)

    def _groups(self, texts: Texts) -> Iterator[tuple[int, Texts]]:
        """Yield groups of rows with their readable texts, and the position of the first row of each."""
        group: list[Any] = []
        start = 0
        characters = 0
        for row, text in enumerate(texts):
            if isinstance(text, str):
                (readable,) = self.readable((text,))
                group.append(readable)
                characters += len(readable)
            else:
                pair = self.readable(text)
                group.append(pair)
                characters += sum(map(len, pair))
            if characters >= ENCODED_CHARACTERS:
                yield start, group
                group = []
                start = row + 1
                characters = 0
        if group:
            yield start, group

    def _add(self, inputs: ModelInputs, row: int, encoding: Encoding) -> None:
        """Add the inputs of an encoded row."""
        if len(encoding) <= self.max_length:
            inputs.inputs.append(encoding)
            inputs.window_counts.append(1)
            return

        if self.long_text.windows is None:
            head_share = self.long_text.head_share_of(self.truncation_side)
            cuts = [cut_head_and_tail(encoding, self.max_length, head_share)]
            is_truncated = True
        else:
            try:
                cuts, is_truncated = self.windows(encoding)
            except DataError as error:
                raise EncodingError.of_row(row, error.problem, error.hint) from None
        inputs.inputs += KeptTokens.of(encoding, cuts)
        inputs.window_counts.append(len(cuts))
        inputs.truncated += is_truncated


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
        if self.windows:
            values["mean_windows"] = self.windows / self.rows
        return {f"{prefix}{name}": value for name, value in values.items()}

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


def flat_array(lists: Iterator[Sequence[int]], dtype: type[np.integer], count: int) -> NDArray[Any]:
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
    for inputs, labels in _prefetch(_encoded(encoder, rows, text_columns)):
        columns = encoder.columns(inputs)
        columns[LABELS] = labels
        ready.append(pa.record_batch([columns[name] for name in schema.names], schema=schema))
        if sum(map(len, ready)) == ROW_GROUP:
            yield pa.concat_batches(ready)
            ready.clear()
    if ready:
        yield pa.concat_batches(ready)


def _encoded(
    encoder: Encoder, rows: Iterator[pa.RecordBatch], text_columns: Sequence[str]
) -> Iterator[tuple[ModelInputs, pa.Array]]:
    """Yield the encoded rows and the labels of each chunk."""
    first_row = 0
    for chunk in _chunks(rows):
        columns = [chunk[name].to_pylist() for name in text_columns]
        texts: Texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        try:
            inputs = encoder.encode(texts)
        except EncodingError as error:
            error.row += first_row
            raise
        yield inputs, chunk[LABELS]
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
