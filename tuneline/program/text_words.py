"""The words of texts: what an explanation names, and what a text is without one of them.

A word is a run of letters and digits, with single marks such as apostrophes, hyphens and decimal points
between them; a run of other characters, such as punctuation or emoji, is a word, too, because a model reads
it. Where a script has no spaces between words, as Chinese or Thai, a word is a token of the model's
tokenizer.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding

from tuneline.model.long_text import cut_head_and_tail
from tuneline.onnx.exported_model import ExportedModel

JOINERS = "'’-.,:/@_"  # noqa: RUF001 - both apostrophes
"""Characters that belong to a word if there are letters or digits on both sides of a single one."""
LETTERS_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, kana, ideographs."""
ZERO_WIDTH_SPACE = "\u200b"
"""What some write between the words of such scripts."""

SPACE, LETTER, JOINER, UNSPACED_LETTER, OTHER = "sljuo"
"""Kinds of characters; ``CONTINUED`` is one that belongs to the character before it, such as an accent."""
CONTINUED = "c"
WORD_RUN = re.compile(f"{LETTER}+(?:{JOINER}{LETTER}+)*|{UNSPACED_LETTER}+|[{JOINER}{OTHER}]+")
"""Runs in the kinds of a text's characters that are words, or are divided into words."""


@dataclass(frozen=True)
class WordSpan:
    """A word, or several that follow each other, in one of the texts of a row.

    Attributes:
        text: Position of the text in the row.
        start: Position of its first character in the text.
        end: Position after its last character.
    """

    text: int
    start: int
    end: int


def read_words(model: ExportedModel, texts: Sequence[str]) -> list[WordSpan]:
    """Return the words of a row that the model reads, in order.

    Args:
        model: The model: what it reads of a long row depends on its length.
        texts: One or two texts.

    Raises:
        DataError: The shorter text of a pair leaves no room for windows of the longer one.
    """
    encoder = model.encoder
    readable = encoder.readable(texts)
    # with the places of the tokens in the texts, which the fast encoding of batches lacks
    pair = readable[1] if len(readable) > 1 else None
    encoding = encoder.tokenizer.encode(readable[0], pair)
    is_read = _read_tokens(model, encoding)

    words = []
    for text, part in enumerate(readable):
        tokens = []
        read_characters = np.zeros(len(part), dtype=bool)
        for token, (start, end) in enumerate(encoding.offsets):
            if encoding.token_to_sequence(token) != text or start == end:
                continue
            tokens.append((start, end))
            if is_read[token]:
                read_characters[start:end] = True

        for start, end in _words(part, tokens):
            if read_characters[start:end].any():
                shift = _shift(texts[text], part, end)
                words.append(WordSpan(text, start + shift, end + shift))
    return words


def without(texts: Sequence[str], span: WordSpan) -> tuple[str, ...]:
    """Return the texts of a row as they would be without a word.

    A space beside it goes with it, and a space comes where letters on both sides would become one word.
    """
    text = texts[span.text]
    before = text[: span.start]
    after = text[span.end :]
    left = _kind(before[-1]) if before else SPACE
    right = _kind(after[0]) if after else SPACE

    if left == SPACE and right == SPACE:
        if after:
            after = after[1:]
        else:
            before = before[:-1]
    elif left in {LETTER, CONTINUED} and right == LETTER:
        before += " "
    return (*texts[: span.text], before + after, *texts[span.text + 1 :])


def _read_tokens(model: ExportedModel, encoding: Encoding) -> np.ndarray:
    """Return which tokens of an encoded row the model reads, bool ``(tokens,)``."""
    encoder = model.encoder
    if len(encoding) <= encoder.max_length:
        return np.ones(len(encoding), dtype=bool)

    if encoder.long_text.windows is None:
        head_share = encoder.long_text.head_share_of(encoder.truncation_side)
        cuts = [cut_head_and_tail(encoding, encoder.max_length, head_share)]
    else:
        cuts, _ = encoder.windows(encoding)
    is_read = np.zeros(len(encoding), dtype=bool)
    for cut in cuts:
        for tokens in cut:
            is_read[tokens] = True
    return is_read


def _words(text: str, tokens: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return start and end of each word of a text, whose tokens have these starts and ends."""
    words: list[tuple[int, int]] = []
    kinds = _kinds(text)
    starts = _token_starts(text, tokens)
    for run in WORD_RUN.finditer(kinds):
        cuts = [run.start()]
        if kinds[run.start()] == UNSPACED_LETTER:
            first, last = np.searchsorted(starts, [run.start() + 1, run.end()])
            cuts += starts[first:last]
        words += zip(cuts, [*cuts[1:], run.end()], strict=True)
    return words


def _token_starts(text: str, tokens: Sequence[tuple[int, int]]) -> list[int]:
    """Return where tokens begin, in order, without those that begin within a character or at an accent.

    A character can be several tokens, each a part of its bytes.
    """
    starts = []
    previous = 0  # end of the tokens before
    for start, end in tokens:
        if start >= previous and _kind(text[start]) != CONTINUED:
            starts.append(start)
        previous = max(previous, end)
    return starts


def _kinds(text: str) -> str:
    """Return the kind of each character; that of an accent is the one of the character before it."""
    kinds = []
    kind = OTHER
    for character in text:
        own = _kind(character)
        if own != CONTINUED:
            kind = own
        kinds.append(kind)
    return "".join(kinds)


def _kind(character: str) -> str:
    """Return the kind of a character."""
    if character.isspace() or character == ZERO_WIDTH_SPACE:
        return SPACE
    if character in JOINERS:
        return JOINER
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf":
        return CONTINUED
    if category[0] not in "LN":
        return OTHER
    return UNSPACED_LETTER if LETTERS_WITHOUT_SPACES.match(character) else LETTER


def _shift(text: str, part: str, end: int) -> int:
    """Return how far a word of a part of a text is from there in the text.

    Args:
        text: The text.
        part: A beginning and an end of it, joined; one may be empty.
        end: End of the word in the part.
    """
    if text[:end] == part[:end]:
        return 0
    return len(text) - len(part)
