"""Big texts without the part that a model cannot read, so that it is not tokenized.

A tokenizer takes about a second and 100 to 200 MB for a text of a million characters, of which a model reads
some hundred tokens. The tokens that the model reads are the same with and without the rest.
"""

from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from tuneline.model.long_text import LongText
from tuneline.model.safe_cuts import SafeCuts

CHARACTERS_PER_TOKEN = 8
"""Characters in which most texts have more than a token; where they have less, more are tried."""
GROWTH = 4
"""Factor by which a part grows that has too few tokens. A text is big if it has more parts than that."""
COUNTED_AT_A_TIME = 100_000
"""Characters whose tokens are counted at a time."""


class ReadableText:
    """Cuts out of big texts what a model does not read.

    Which tokens it reads of a text depends on their number in one case: of a pair of which both texts are
    longer than the model. So the longer text of a pair stays the longer one.
    """

    def __init__(
        self, tokenizer: Tokenizer, long_text: LongText, max_length: int, truncation_side: str
    ) -> None:
        """Prepare for the texts of a model.

        Args:
            tokenizer: A Rust tokenizer that neither truncates nor pads.
            long_text: What the model reads of a long text.
            max_length: Tokens that it reads at once.
            truncation_side: Side of a text that it does not read: ``left`` or ``right``.
        """
        self._tokenizer = tokenizer
        self._is_windowed = long_text.windows is not None
        both_ends = long_text.head_share is not None
        self._reads_head = both_ends or truncation_side == "right"
        self._reads_tail = both_ends or truncation_side == "left"
        # With one token more, a text is still one of which the model does not read all.
        self._read_tokens = long_text.longest_row(max_length)
        self._big = GROWTH * CHARACTERS_PER_TOKEN * (self._read_tokens + 1)

    @cached_property
    def _cuts(self) -> SafeCuts | None:
        return SafeCuts.of(self._tokenizer)

    def of_row(self, row: Sequence[str]) -> Sequence[str]:
        """Return the one or two texts of a row without the parts that are not read."""
        if max(map(len, row)) <= self._big:
            return row
        try:
            if len(row) == 1:
                return (self._part(row[0], self._read_tokens),)
            return self._parts_of_pair(*row)
        except BaseException as error:
            if not is_tokenizer_error(error):
                raise
            return row  # whoever encodes it says which row the tokenizer fails on

    def _parts_of_pair(self, first: str, second: str) -> tuple[str, str]:
        """Return a pair of texts without the parts that are not read."""
        first_part = self._part(first, self._read_tokens)
        second_part = self._part(second, self._read_tokens)
        if self._is_windowed:  # such a pair is refused if both texts are long
            return (first_part, second_part)

        # Only of two long texts, it is unknown which is the longer one: a part has more tokens than are read.
        first_tokens = self._count_tokens(first_part)
        second_tokens = self._count_tokens(second_part)
        if min(first_tokens, second_tokens) > self._read_tokens:
            if self._count_tokens(first) > self._count_tokens(second):
                if first_tokens <= second_tokens:
                    first_part = self._part(first, second_tokens)
            elif first_tokens > second_tokens:
                second_part = self._part(second, first_tokens)
        return (first_part, second_part)

    def _part(self, text: str, tokens: int) -> str:
        """Return a part of a text with more tokens than ``tokens`` at each end that is read.

        It is the whole text if it is not big, or if no safe cut is known that leaves so many tokens.
        """
        size = CHARACTERS_PER_TOKEN * (tokens + 1)
        while GROWTH * size < len(text):
            if self._cuts is None:
                return text
            ends = self._ends(self._cuts, text, size)
            if ends is None:
                return text
            if min(map(self._count_tokens, ends)) > tokens:
                return "".join(ends)
            size *= GROWTH
        return text

    def _ends(self, cuts: SafeCuts, text: str, size: int) -> list[str] | None:
        """Return the ends of a text that are read, of about ``size`` characters; ``None``: no safe cuts."""
        ends = []
        if self._reads_head:
            head = cuts.head(text, size)
            if head is None or len(head) > len(text) // 2:
                return None
            ends.append(head)
        if self._reads_tail:
            tail = cuts.tail(text, size)
            if tail is None:
                return None
            ends.append(tail)
        if len(ends) == 2 and not cuts.joins(*ends):
            return None
        return ends

    def _count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, counted part by part."""
        tokens = 0
        start = 0
        while start < len(text):
            stop = len(text)
            if self._cuts is not None and stop - start > COUNTED_AT_A_TIME:
                stop = self._cuts.after(text, start + COUNTED_AT_A_TIME) or stop
            (encoding,) = self._tokenizer.encode_batch_fast([text[start:stop]], add_special_tokens=False)
            tokens += len(encoding)
            start = stop
        return tokens


def is_tokenizer_error(error: BaseException) -> bool:
    """Return True for errors of the tokenizers library, which have no class that can be imported.

    They are a bare ``Exception`` (the vocabulary has no unknown token), or a panic of Rust (a regular
    expression takes too many steps), which is no ``Exception``.
    """
    return type(error) is Exception or type(error).__name__ == "PanicException"
