"""The proposal for texts that are longer than a model input: ``tokenize.long_text``, reason and cost.

Sources: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?" (beginning and end); Pappagari et
al. 2019, "Hierarchical Transformers for Long Document Classification" (windows).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.model.text_lengths import Reading, TextLengths

FEW_CUT = 0.05
"""Share of cut rows below which they are truncated: windows would help few of them."""
MOST_TIME = 8.0
"""Times the time of ``truncate`` above which windows are not proposed."""
STRIDE_DIVISOR = 8
"""Neighbouring windows share at most an eighth of a window: 16 of 128 tokens."""


@dataclass(frozen=True)
class LongTexts:
    """What becomes of texts longer than ``max_length``, and what a model then reads.

    Attributes:
        kind: ``tokenize.long_text``.
        params: It and the parameters of windows, by dotted key.
        reasons: Lines for the user; empty where (almost) all texts are read whole.
        reading: What the model reads of the sample.
        max_length: Tokens of a model input at most.
        input_lengths: Tokens of each model input of the sample, ascending: of each row, or of each window.
        inputs_per_row: Mean number of model inputs of a row.
    """

    kind: str
    params: Mapping[str, Any]
    reasons: tuple[str, ...]
    reading: Reading
    max_length: int
    input_lengths: NDArray[np.int64]
    inputs_per_row: float = 1.0

    @property
    def full(self) -> float:
        """Share of the rows that leave no room, as the data check ``truncation_rate`` counts them.

        A row of exactly ``max_length`` tokens is counted, too: it looks like one that was cut.
        """
        if self.kind == "windows":
            return self.reading.incomplete
        return float(np.mean(self.input_lengths == self.max_length))


def truncated_texts(lengths: TextLengths, max_length: int) -> LongTexts:
    """Return what a model reads of texts that are cut to ``max_length`` tokens."""
    input_lengths = np.sort(np.minimum(lengths.tokens, max_length))
    values: dict[str, Any] = {"tokenize.long_text": "truncate"}
    return LongTexts("truncate", values, (), lengths.cut(max_length), max_length, input_lengths)


def plan_long_texts(lengths: TextLengths, max_length: int, stride: int) -> LongTexts:
    """Return the proposal for a model that takes no more than ``max_length`` tokens, or needs no more.

    Args:
        lengths: Lengths of a sample of rows.
        max_length: Tokens of a model input.
        stride: Tokens that neighbouring windows share, if the windows are long enough for that.
    """
    truncated = truncated_texts(lengths, max_length)
    if truncated.reading.incomplete < FEW_CUT:
        return truncated

    # windows
    stride = min(stride, max_length // STRIDE_DIVISOR)
    max_windows = lengths.enough_windows(max_length, stride)
    windowed = lengths.windowed(max_length, stride, max_windows)
    factor = windowed.processed / truncated.reading.processed

    # where they are impossible or too slow: beginning and end
    facts = (
        f"! {truncated.reading.incomplete:.0%} of the rows are longer than {max_length} tokens, and"
        f" {truncated.reading.lost:.0%} of all tokens do not fit: docs/long-documents.md"
    )
    obstacle = None
    if not lengths.allows_windows(max_length, stride):
        obstacle = "in some pairs both texts are long, and each window would have the shorter one whole"
    elif factor > MOST_TIME:
        obstacle = f"windows would take {factor:.1f} times the time of truncate"
    values: dict[str, Any]
    if obstacle is not None:
        reason = f"long_text head_tail: beginning and end of each text are read; {obstacle}"
        values = {"tokenize.long_text": "head_tail"}
        return replace(truncated, kind="head_tail", params=values, reasons=(facts, reason))

    reads = "all tokens"
    if windowed.incomplete:
        reads = f"all but {windowed.lost:.1%} of the tokens"
    reason = (
        f"long_text windows: at most {max_windows} of a text have {reads}, for {factor:.1f} times the time of"
        " truncate; head_tail reads beginning and end in its time"
    )
    values = {
        "tokenize.long_text": "windows",
        "tokenize.windows.stride": stride,
        "tokenize.windows.max_windows": max_windows,
    }
    window_lengths = lengths.window_lengths(max_length, stride, max_windows)
    return LongTexts(
        kind="windows",
        params=values,
        reasons=(facts, reason),
        reading=windowed,
        max_length=max_length,
        input_lengths=window_lengths,
        inputs_per_row=len(window_lengths) / len(lengths.tokens),
    )
