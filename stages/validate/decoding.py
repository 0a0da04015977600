"""Turns ids back into text and compares it with what they were made from, up to what normalisers change."""

import unicodedata
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders

from stages.validate.picking import spread, take_rows
from stages.validate.vocabulary import Vocabulary, load_tokenizer
from tuneline.params import Params


def decoded(raw: Path, tokenized: Path, params: Params, tokenizer: Path, vocabulary: Vocabulary) -> NDArray[np.float64]:
    """Decodes a sample of a split.

    Args:
        raw: Its raw file.
        tokenized: Its tokenized file, of as many rows.
        params: Text columns, longest row, rows of the sample.
        tokenizer: Folder of the tokenizer.
        vocabulary: What is known of it.

    Returns:
        Of shape ``[rows]``: 1 where the ids give the texts back, 0 where not, NaN for a row that was not decoded.
    """
    total = pq.read_metadata(tokenized).num_rows
    rows = spread(total, params.validate_.decoded_text.rows)
    decoder = Decoder(load_tokenizer(tokenizer), vocabulary, params.tokenize.max_length)
    ids = take_rows(tokenized, rows, ["input_ids"])["input_ids"].to_pylist()
    texts = zip(*(take_rows(raw, rows, [name])[name].to_pylist() for name in params.data.text_columns), strict=True)
    found = np.full(total, np.nan)
    found[rows] = [decoder.gives_back(row, [text or "" for text in row_texts]) for row, row_texts in zip(ids, texts, strict=True)]
    return found


def compact(text: str) -> str:
    """A text without what tokenizers may change: case, accents, white space, control characters, forms of one character."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(
        character
        for character in plain
        if character != "\ufffd" and not character.isspace() and unicodedata.category(character)[0] not in "MC"
    )


class Decoder:
    """Compares rows of ids with their texts.

    Args:
        tokenizer: The one that made the ids.
        vocabulary: What is known of it.
        max_length: Rows of so many ids may have been cut.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._max_length = max_length
        if isinstance(tokenizer.decoder, decoders.WordPiece):
            tokenizer.decoder = decoders.WordPiece(cleanup=False)  # cleaning up turns "do not" into "don't"

    def gives_back(self, ids: Sequence[int], texts: Sequence[str]) -> bool:
        """Whether the ids say what the texts say.

        An unknown token stands for anything. Of a row that may have been cut, the texts need only begin, or only end, with what is left.
        """
        segments = [self._pieces(segment) for segment in self._segments(ids)]
        wanted = [compact(text) for text in texts]
        if len(ids) < self._max_length:
            return matches(_joined(segments), "".join(wanted))
        if len(segments) != len(wanted):
            return True  # no special token tells where the first text was cut: nothing to compare
        pairs = list(zip(segments, wanted, strict=True))
        return all(matches(*pair, to_end=False) for pair in pairs) or all(matches(*pair, from_start=False) for pair in pairs)

    def _segments(self, ids: Sequence[int]) -> list[list[int]]:
        """The runs of ids between special tokens."""
        runs = groupby(ids, key=lambda token: token in self._vocabulary.special_ids)
        return [list(run) for special, run in runs if not special]

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        """The texts between unknown tokens: one more than there are runs of these."""
        unknown = self._vocabulary.unknown_id
        pieces = [""]
        for is_unknown, run in groupby(ids, key=lambda token: token == unknown):
            if is_unknown:
                pieces.append("")
            else:
                pieces[-1] = compact(self._tokenizer.decode(list(run), skip_special_tokens=False))
        return pieces


def _joined(segments: list[list[str]]) -> list[str]:
    """The pieces of all segments: the last of one runs on into the first of the next."""
    whole = [""]
    for first, *others in segments:
        whole = [*whole[:-1], whole[-1] + first, *others]
    return whole


def matches(pieces: Sequence[str], text: str, from_start: bool = True, to_end: bool = True) -> bool:
    """Whether ``text`` is made of ``pieces`` with anything between them.

    Args:
        pieces: In order.
        text: What they should make up.
        from_start: The first piece must stand at the start.
        to_end: The last piece must stand at the end.
    """
    place = 0
    for number, piece in enumerate(pieces):
        if number == 0 and from_start:
            found = 0 if text.startswith(piece) else -1
        else:
            found = text.rfind(piece, place) if number == len(pieces) - 1 and to_end else text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return not to_end or place == len(text)
