"""Rows of a split within limits, so that time and memory are bounded for any data."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.core.stage.tables import LABELS, SplitReader

MAX_ROWS = 50_000
"""Rows of the train split, drawn with the seed."""
MAX_SCORES = 10_000_000
"""Rows times classes: fewer rows are used if there are many classes."""
MAX_CHARACTERS = 10_000_000
"""Characters of these rows together: fewer rows are used if they are long."""
MAX_TEXT = 2_000
"""Characters read of each text; the model reads no more than ``tokenize.max_length`` tokens either."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces between words: each counts as a word.

The scripts are Thai, Lao, Burmese, Khmer, Japanese and Chinese.
"""


def read_sample(
    split: SplitReader, text_columns: Sequence[str], outputs: int, seed: int, *, max_rows: int | None = None
) -> pa.Table:
    """Read rows of a raw split, drawn with the seed, within the limits above.

    The split is read in batches, so that a large one needs no more memory.

    Returns:
        The text columns, cut off after ``MAX_TEXT`` characters, and the labels, in the order of the split. A
        missing text is empty.
    """
    # rows, without their texts
    total = split.rows
    generator = np.random.default_rng(seed)
    limit = min(total, max_rows or MAX_ROWS, MAX_SCORES // outputs)
    drawn = np.sort(generator.choice(total, limit, replace=False))

    # the start of their texts
    columns = [*text_columns, LABELS]
    parts = []
    start = 0
    for batch in split.batches(columns):
        first, stop = np.searchsorted(drawn, [start, start + len(batch)])
        taken = batch.take(pa.array(drawn[first:stop] - start))
        arrays = []
        for name in text_columns:
            arrays.append(pc.utf8_slice_codeunits(pc.fill_null(taken[name], ""), 0, MAX_TEXT))
        arrays.append(taken[LABELS])
        parts.append(pa.record_batch(arrays, columns))
        start += len(batch)
    rows = pa.Table.from_batches(parts)

    # fewer of them if they are long
    lengths = sum(pc.utf8_length(rows[name]).to_numpy() for name in text_columns)
    order = generator.permutation(len(rows))
    kept = order[np.cumsum(lengths[order]) <= MAX_CHARACTERS]
    return rows.take(np.sort(kept))
