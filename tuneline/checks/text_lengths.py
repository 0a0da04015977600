"""The lengths of whole texts in tokens, and what a model reads of them: cut, or in windows.

A document is a row: one text, or a pair of which the longer text is cut or windowed. The time of a model
grows with the tokens of its inputs, so the ratio of two ``processed`` is the ratio of two times.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tuneline.core.stage.texts import UNSPACED
from tuneline.model.tokens.encoding import encode_batch
from tuneline.model.tokens.long_text import LEAST_SHARE

WHOLE_SHARE = 0.95
"""Share of the documents that a recommended number of windows reads whole."""
MOST_WINDOWS = 16
"""Windows of a document that are recommended at most."""
MOST_PIECES = 2.3
"""Mean pieces of a word, above which a tokenizer does not know the language of the words.

With marks between words, that is about 2.5 tokens for each word. ``bert-base-uncased`` needs 1.0 to 1.1 in
English, 1.6 in tweets, 2.1 in German, 2.6 in Finnish, and 3.9 in Russian.
"""
_MARKS = r"!-/:-@\[-`{-~"
WORD = re.compile(rf"[{UNSPACED}]|[^\s{_MARKS}{UNSPACED}]+")
MARK = re.compile(f"[{_MARKS}]")
MEASURED_AT_A_TIME = 200
"""Texts per call of the tokenizer: an encoding takes about 100 bytes per token, and these texts are long."""


@dataclass(frozen=True)
class Reading:
    """What a model reads of documents.

    Attributes:
        incomplete: Share of the documents that lose tokens.
        lost: Share of all tokens that are in no model input.
        processed: Tokens of all model inputs.
    """

    incomplete: float
    lost: float
    processed: int


@dataclass(frozen=True)
class TextLengths:
    """Lengths of documents that are read as a whole.

    Attributes:
        tokens: Tokens of each document with its special tokens, of shape ``(documents,)``.
        repeated: Tokens of it that each of its windows has: the special tokens and, of a pair, the shorter
            text.
        word_pieces: Mean pieces of the words of the texts; 0 if it was not measured.
    """

    tokens: NDArray[np.int64]
    repeated: NDArray[np.int64]
    word_pieces: float = 0.0

    @classmethod
    def measured(cls, tokenizer: Tokenizer, columns: Sequence[Sequence[str]], name: str) -> "TextLengths":
        """Return the lengths of documents of one or two columns, as ``measure_texts`` measures them."""
        contents = [measure_texts(tokenizer, texts, name) for texts in columns]
        lengths = cls.of_texts(contents, tokenizer.num_special_tokens_to_add(is_pair=len(columns) > 1))
        texts = list(itertools.chain.from_iterable(columns))
        return replace(lengths, word_pieces=word_pieces(texts, int(np.sum(contents))))

    @classmethod
    def of_texts(cls, contents: Sequence[NDArray[np.int64]], special_tokens: int) -> "TextLengths":
        """Return the lengths of documents from the tokens of each text, one array for each text column."""
        both = np.stack(contents)
        repeated = np.full(both.shape[1], special_tokens, dtype=np.int64)
        if len(contents) > 1:
            repeated += both.min(axis=0)
        return cls(both.sum(axis=0) + special_tokens, repeated)

    def cut(self, max_length: int) -> Reading:
        """Return what is read of documents that are cut to ``max_length`` tokens."""
        return self._reading(np.minimum(self.tokens, max_length), np.minimum(self.tokens, max_length))

    def windowed(self, max_length: int, stride: int, max_windows: int) -> Reading:
        """Return what is read of documents in at most ``max_windows`` windows.

        Args:
            max_length: Tokens of a window.
            stride: Tokens that neighbouring windows share.
            max_windows: Windows of a document.
        """
        windows = np.minimum(self.windows(max_length, stride), max_windows)
        processed = self._processed(windows, max_length, stride)
        return self._reading(processed - self._again(windows, stride), processed)

    def windows(self, max_length: int, stride: int) -> NDArray[np.int64]:
        """Return the number of windows that each whole document needs, of shape ``(documents,)``."""
        new = np.maximum(max_length - self.repeated - stride, 1)  # tokens that a further window adds
        further = np.ceil(np.maximum(self.tokens - max_length, 0) / new)
        return 1 + further.astype(np.int64)

    def enough_windows(self, max_length: int, stride: int) -> int:
        """Return the windows that ``WHOLE_SHARE`` of the documents need, from 2 to ``MOST_WINDOWS``."""
        needed = self.windows(max_length, stride)
        enough = int(np.quantile(needed, WHOLE_SHARE, method="inverted_cdf"))
        return min(max(enough, 2), MOST_WINDOWS)

    def allows_windows(self, max_length: int, stride: int) -> bool:
        """Return True if the shorter text of each long pair leaves room for windows of the longer one."""
        room = max_length - self.repeated[self.tokens > max_length]
        return bool(np.all(room >= max(max_length // LEAST_SHARE, stride + 1)))

    def _processed(self, windows: NDArray[np.int64], max_length: int, stride: int) -> NDArray[np.int64]:
        """Return the tokens of all windows of each document."""
        processed: NDArray[np.int64] = np.minimum(
            self.tokens + self._again(windows, stride), windows * max_length
        )
        return processed

    def _again(self, windows: NDArray[np.int64], stride: int) -> NDArray[np.int64]:
        """Return the tokens of each document that a window has and an earlier one had, too."""
        return (windows - 1) * (self.repeated + stride)

    def _reading(self, read: NDArray[np.int64], processed: NDArray[np.int64]) -> Reading:
        return Reading(
            incomplete=float(np.mean(read < self.tokens)),
            lost=float(1 - read.sum() / self.tokens.sum()),
            processed=int(processed.sum()),
        )


def measure_texts(tokenizer: Tokenizer, texts: Sequence[str], name: str) -> NDArray[np.int64]:
    """Return the number of tokens of each text, without special tokens, with few of them in memory.

    Args:
        tokenizer: A Rust tokenizer without truncation and padding.
        texts: Texts of one column.
        name: The file of the tokenizer, for the message.

    Raises:
        EncodingError: The tokenizer fails on a text.
    """
    special_tokens = tokenizer.num_special_tokens_to_add(is_pair=False)
    lengths: list[int] = []
    for start in range(0, len(texts), MEASURED_AT_A_TIME):
        for encoding in encode_batch(tokenizer, list(texts[start : start + MEASURED_AT_A_TIME]), name):
            lengths.append(len(encoding) - special_tokens)
    return np.array(lengths, dtype=np.int64)


def word_pieces(texts: Sequence[str], tokens: int) -> float:
    """Return the mean pieces of the words of texts, without marks between words; 0 if there are no words.

    Args:
        texts: The texts.
        tokens: Their tokens, without special tokens.
    """
    words = sum(len(WORD.findall(text)) for text in texts)
    marks = sum(len(MARK.findall(text)) for text in texts)
    return max(tokens - marks, 0) / max(words, 1)
