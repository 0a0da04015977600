"""Encoding of texts into inputs of a model, with the Rust tokenizer."""

import itertools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from tuneline.core.runtime.errors import DataError
from tuneline.model.tokens.long_text import Cut, LongText, cut_windows, truncated

ENCODED_CHARACTERS = 1 << 19
"""Characters from which a call of the Rust tokenizer has no more rows, however few it has.

It takes 100 to 200 bytes of memory for each character.
"""
Texts = list[str] | list[tuple[str, ...]]
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


def is_tokenizer_error(error: BaseException) -> bool:
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
        f"It begins with {longest[:SHOWN]!r}. Shorten it or leave the row out; or train another checkpoint.",
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
        truncated: Number of rows whose tokens the model does not all read.
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

    def cuts(self, encoding: Encoding) -> tuple[list[Cut], bool]:
        """Return the parts of a row that the model reads, one for each input; and True if it loses tokens.

        Raises:
            DataError: The shorter text of a pair leaves too little room for windows of the longer one.
        """
        if len(encoding) <= self.max_length:
            return [(slice(0, len(encoding)),)], False
        if self.long_text.windows is None:
            return [truncated(encoding, self.max_length, self.truncation_side)], True
        return cut_windows(encoding, self.max_length, self.long_text.windows, self.truncation_side)

    def _groups(self, texts: Texts) -> Iterator[tuple[int, Texts]]:
        """Yield groups of rows, and the position of the first row of each."""
        group: list[Any] = []
        start = 0
        characters = 0
        for row, text in enumerate(texts):
            group.append(text)
            if isinstance(text, str):
                characters += len(text)
            else:
                characters += sum(map(len, text))
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
        try:
            cuts, is_truncated = self.cuts(encoding)
        except DataError as error:
            raise EncodingError.of_row(row, error.problem, error.hint) from None
        inputs.inputs += KeptTokens.of(encoding, cuts)
        inputs.window_counts.append(len(cuts))
        inputs.truncated += is_truncated


def flat_array(lists: Iterator[Sequence[int]], dtype: type[np.integer], count: int) -> NDArray[Any]:
    """Return the ``count`` numbers of all lists in one array."""
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=dtype, count=count)
