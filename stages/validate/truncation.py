"""What the model does not read of long texts, which option would read it, and what that costs.

The lengths of whole texts are counted in a sample of rows: the tokenized rows do not have what was cut.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stages.validate.checks import percent
from stages.validate.tokenized import evenly_spaced, load_plain_tokenizer
from tuneline.core.base_source import BaseSource
from tuneline.core.tables import SplitReader
from tuneline.model.text_lengths import Reading, TextLengths, measure_texts
from tuneline.model.tokenizer import checkpoint_limit
from tuneline.params import Params
from tuneline.paths import BASE_RECORD, BASE_TOKENIZER

MEASURED_ROWS = 2_000
"""Rows of a split whose texts are tokenized again at most."""
MEASURED_CHARACTERS = 20_000_000
"""Characters of them, about: some seconds."""
WHOLE_SHARE = 0.99
"""Share of the rows that a larger ``max_length`` shall read whole."""


def whole_lengths(
    raw: SplitReader, mean_characters: float, text_columns: Sequence[str], tokenizer: Path
) -> TextLengths:
    """Count the tokens of whole rows of a split, evenly spaced.

    Args:
        raw: The raw split.
        mean_characters: Mean characters of its rows.
        text_columns: Its text columns.
        tokenizer: Folder of the tokenizer.
    """
    affordable = max(int(MEASURED_CHARACTERS / max(mean_characters, 1)), 1)
    rows = evenly_spaced(raw.rows, min(MEASURED_ROWS, affordable))
    counting = load_plain_tokenizer(tokenizer)
    counting.encode_special_tokens = True  # a special token that stands in a text is text

    contents = []
    for name in text_columns:
        texts = [text or "" for text in raw.take(rows, [name])[name].to_pylist()]
        contents.append(measure_texts(counting, texts, str(tokenizer), None).tokens)
    special_tokens = counting.num_special_tokens_to_add(is_pair=len(text_columns) > 1)
    return TextLengths.of_texts(contents, special_tokens)


def model_limit(base: Path) -> int | None:
    """Return the tokens that the checkpoint in a folder takes; ``None``: any number.

    A model made from scratch takes as many as its configuration says, which can say more.
    """
    source = BaseSource.read(base / BASE_RECORD.name)
    if source.checkpoint is None:
        return None
    return checkpoint_limit(base / BASE_TOKENIZER.name)


class TruncationNotes:
    """The notes of the check ``truncation_rate`` on one split."""

    def __init__(self, lengths: TextLengths, rows: int, params: Params, limit: int | None) -> None:
        """Compute what the model reads now.

        Args:
            lengths: Lengths of a sample of the split.
            rows: Rows of the split.
            params: All parameters.
            limit: Tokens that the model takes; ``None``: any number.
        """
        self._lengths = lengths
        self._rows = rows
        self._tokenize = params.tokenize
        self._from_scratch = params.model.checkpoint is None
        self._limit = limit
        self._truncated = lengths.cut(self._tokenize.max_length)
        self._now = self._truncated
        if self._tokenize.long_text == "windows":
            windows = self._tokenize.windows
            self._now = lengths.windowed(self._tokenize.max_length, windows.stride, windows.max_windows)

    def options(self) -> list[str]:
        """Return what would read more, each with its time; nothing if all texts are read whole."""
        if not self._now.incomplete:
            return []
        lines = self._longer_inputs() + self._windows()
        if self._tokenize.long_text == "truncate":
            lines.append(
                "tokenize.long_text=head_tail reads the beginning and the end of each text, in the same time."
            )
        return lines

    def losses(self) -> list[str]:
        """Return which share of rows and tokens the model does not read; nothing if no text is too long."""
        if not self._truncated.incomplete:
            return []
        return [self._what_is_lost()]

    def _what_is_lost(self) -> str:
        """Return which share of rows and tokens the model does not read, and the time of windows."""
        max_length = self._tokenize.max_length
        rows = f"{percent(self._truncated.incomplete)} of the rows"
        if len(self._lengths.tokens) < self._rows:
            rows += f" (of {len(self._lengths.tokens):,} that were measured)"
        long_rows = f"{rows} are longer than {max_length:,} tokens"
        lost = f"{percent(self._now.lost)} of all tokens"
        if self._tokenize.long_text == "truncate":
            return f"{long_rows}; the model does not read their ends, {lost}."
        if self._tokenize.long_text == "head_tail":
            return f"{long_rows}; the model does not read their middles, {lost}."

        windows = (
            f"{long_rows}, and are read in windows, in {self._times(self._now, self._truncated)} the time of"
            " tokenize.long_text=truncate"
        )
        if not self._now.incomplete:
            return f"{windows}."
        most = self._tokenize.windows.max_windows
        behind = f"{percent(self._now.incomplete)} of the rows have more than {most} windows"
        return f"{windows}; {behind}, and the model does not read {lost}."

    def _longer_inputs(self) -> list[str]:
        """Return what a larger ``max_length`` reads, if the model takes it."""
        max_length = self._tokenize.max_length
        needed = int(np.quantile(self._lengths.tokens, WHOLE_SHARE, method="inverted_cdf"))
        longer = -(-needed // 8) * 8
        if self._limit is not None:
            longer = min(longer, self._limit)
        if longer <= max_length:
            return []
        reading = self._lengths.cut(longer)
        setting = f"tokenize.max_length={longer}"
        if self._from_scratch:
            setting += f" model.config.max_position_embeddings={longer}"
        elif self._tokenize.long_text != "truncate":
            setting += " tokenize.long_text=truncate"
        return [f"{setting} {self._effect(reading)} at least: attention grows faster."]

    def _windows(self) -> list[str]:
        """Return what (more) windows read."""
        windows = self._tokenize.windows
        max_length = self._tokenize.max_length
        most = self._lengths.enough_windows(max_length, windows.stride)
        if not self._lengths.allows_windows(max_length, windows.stride):
            return []
        setting = f"tokenize.windows.max_windows={most}"
        if self._tokenize.long_text != "windows":
            setting = f"tokenize.long_text=windows {setting}"
        elif most <= windows.max_windows:
            return []
        return [f"{setting} {self._effect(self._lengths.windowed(max_length, windows.stride, most))}."]

    def _effect(self, reading: Reading) -> str:
        """Return what is lost of the tokens in another way, and the factor of time."""
        lost = "reads all tokens"
        if reading.incomplete:
            lost = f"reads all but {percent(reading.lost)} of the tokens"
        return f"{lost}, in {self._times(reading, self._now)} the time"

    def _times(self, reading: Reading, than: Reading) -> str:
        """Return the factor of time, by the tokens that the model processes."""
        return f"{reading.processed / than.processed:.1f} times"
