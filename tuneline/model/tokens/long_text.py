"""Rows that are longer than the model: which of their tokens it reads, and in how many inputs.

The stage ``tokenize`` writes ``long_text.json`` beside the tokenizer, unless long rows are truncated. So
whoever has the tokenizer of a model treats long texts as in its training.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.records import OMITTED, Record

if TYPE_CHECKING:
    from tokenizers import Encoding

    from tuneline.core.params import TokenizeParams

Answer = Literal["mean", "max"]
"""How the logits of the windows of a document become its own: their mean, or the maximum of each output."""
Cut = tuple[slice, ...]
"""Parts of an encoded row that are one input of the model, when joined."""
LEAST_SHARE = 4
"""The longer text of a pair has at least one of this number of parts of a window."""


class WindowsRecord(Record):
    """Windows of a document, each an input of the model; see ``tokenize.windows`` for the values."""

    stride: int
    max_windows: int
    answer: Answer


class LongText(Record):
    """What becomes of a row with more tokens than the model reads at once."""

    written_by = "tokenize"

    long_text: Literal["truncate", "windows"] = "truncate"
    windows: WindowsRecord | None = OMITTED
    """``windows``: their overlap, their number and the answer."""

    @classmethod
    def of(cls, params: "TokenizeParams") -> Self:
        """Return what the parameters say, without the values that this way does not use."""
        if params.long_text == "windows":
            windows = WindowsRecord(**params.windows.model_dump())
            return cls(long_text="windows", windows=windows)
        return cls()

    @property
    def answer(self) -> Answer | None:
        """The answer from several windows; ``None`` if each row is one input of the model."""
        return None if self.windows is None else self.windows.answer


def longer_text(encoding: "Encoding") -> int:
    """Return the number of the text that has more tokens, the first one of equal ones."""
    lengths = [positions.stop - positions.start for positions in text_positions(encoding)]
    return lengths.index(max(lengths))


def text_positions(encoding: "Encoding") -> list[slice]:
    """Return the positions of the tokens of each text in an encoded row; special tokens are around them."""
    sequence_ids = encoding.sequence_ids
    positions = []
    for text in range(encoding.n_sequences):
        tokens = sequence_ids.count(text)
        start = sequence_ids.index(text) if tokens else 0
        positions.append(slice(start, start + tokens))
    return positions


def truncated(encoding: "Encoding", max_length: int, side: str) -> Cut:
    """Return what is left of a row that is longer than ``max_length``.

    Its texts lose tokens at one side, ``left`` or ``right``; of a pair, the longer text does so first.
    """
    texts = text_positions(encoding)
    lengths = [text.stop - text.start for text in texts]
    special_tokens = len(encoding) - sum(lengths)

    parts = []
    start = 0  # of the next part
    for text, kept in zip(texts, kept_tokens(lengths, max_length - special_tokens), strict=True):
        if kept == text.stop - text.start:
            continue
        if side == "left":
            parts.append(slice(start, text.start))
            start = text.stop - kept
        else:
            parts.append(slice(start, text.start + kept))
            start = text.stop
    parts.append(slice(start, len(encoding)))
    return tuple(parts)


def kept_tokens(lengths: Sequence[int], room: int) -> list[int]:
    """Return how many tokens each of one or two texts keeps, if all have room for ``room`` together."""
    if len(lengths) == 1:
        return [room]
    shorter = min(*lengths, room // 2)
    if lengths[0] <= lengths[1]:
        return [shorter, room - shorter]
    return [room - shorter, shorter]


def cut_windows(
    encoding: "Encoding", max_length: int, windows: WindowsRecord, truncation_side: str
) -> tuple[list[Cut], bool]:
    """Divide a row that is longer than ``max_length`` into windows of about equal length.

    Each has all special tokens and, of a pair, the whole shorter text. Neighbours share ``stride`` tokens.
    What ``max_windows`` cannot hold is truncated.

    Returns:
        The windows, and whether the row was truncated.

    Raises:
        DataError: The shorter text of a pair leaves too little room for the longer one.
    """
    text = text_positions(encoding)[longer_text(encoding)]
    room = max_length - (len(encoding) - (text.stop - text.start))
    stride = windows.stride
    if room < max(max_length // LEAST_SHARE, stride + 1):
        raise _too_little_room(max_length, max(room, 0), stride)

    # what all windows can hold together
    new_tokens = room - stride  # of a window after the first one
    capacity = windows.max_windows * new_tokens + stride
    start = text.start
    stop = text.stop
    is_truncated = stop - start > capacity
    if is_truncated and truncation_side == "left":
        start = stop - capacity
    elif is_truncated:
        stop = start + capacity

    # as few windows as possible, divided evenly: padding is little, and each has about the same say
    divided = stop - start - stride
    count = math.ceil(divided / new_tokens)
    cuts: list[Cut] = []
    for number in range(count):
        first = start + number * divided // count
        end = start + (number + 1) * divided // count + stride
        cuts.append((slice(0, text.start), slice(first, end), slice(text.stop, len(encoding))))
    return cuts, bool(is_truncated)


def _too_little_room(max_length: int, room: int, stride: int) -> DataError:
    """Return the error for a pair whose shorter text leaves too little room."""
    least = max(max_length // LEAST_SHARE, stride + 1)
    return DataError(
        f"the shorter of the two texts leaves {room} of the {max_length} tokens that the model reads to the"
        f" windows of the longer one, and {least} are the least.",
        "Shorten it or leave the row out. Or train with a larger tokenize.max_length, a smaller"
        " tokenize.windows.stride, or tokenize.long_text: truncate, which cuts both texts.",
    )
