"""Rows without text or label. They are bad rows, too.

They stay in the staged splits, where the division by ``data.split`` counts them, and are left out when ``data/raw`` is written.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from stages.download.bad_values import BadValues
from stages.download.source import LABEL, POSITION, SourceColumns
from stages.download.staged import INDEX, StagedSplit
from tuneline.errors import DataError

HINT = "Fill it in."


def check_rows(staged: StagedSplit, columns: SourceColumns) -> None:
    """Report the incomplete rows of a split of the source, and check the share of bad rows of each of its files.

    Raises:
        DataError: A row is incomplete, and bad rows are an error; a file has too many bad rows; or there are no rows.
    """
    incomplete: Counter[str] = Counter()
    if staged.gaps:
        for batch in staged.batches(0, staged.rows):
            _report(staged, columns, batch, incomplete)
    rows = staged.file_rows
    for origin in staged.origins:
        origin.bad.check(rows[origin.bad.name] - incomplete[origin.bad.name])
    if staged.rows == 0:
        raise DataError(f"{staged.name} has no rows.", "Add rows, or name another split in data.splits.")


def _report(staged: StagedSplit, columns: SourceColumns, batch: pa.RecordBatch, incomplete: Counter[str]) -> None:
    rows = np.flatnonzero(~staged.complete(batch).to_numpy(zero_copy_only=False)).tolist()
    texts = {name: batch[f"text_{position}"] for position, name in enumerate(columns.text_columns)}
    read = {**texts, columns.label_column: batch[LABEL]}
    values: dict[str, BadValues] = {}
    for row in rows:
        bad = staged.file(batch[INDEX][row].as_py())
        incomplete[bad.name] += 1
        file = values.setdefault(bad.name, BadValues(bad, batch[POSITION], read))
        missing = next((name for name, text in texts.items() if not text[row].is_valid), None)
        if missing is not None:
            file.add(row, repr(missing), "no text (null)", HINT)
        elif not any(text[row].as_py().strip() for text in texts.values()):
            file.add(row, " and ".join(map(repr, texts)), "no text, or only white space", HINT)
        else:
            file.add(row, repr(columns.label_column), "no label", HINT)
