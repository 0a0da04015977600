"""Rows of a split that repeat or resemble a row of another one, as the data checks have found them."""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.tables import ROW_GROUP
from tuneline.runtime.errors import DataError

CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


def leaked_rows(folder: Path, split: str, rows: int) -> NDArray[np.bool_]:
    """Return which rows of a split repeat or resemble a row of another split, shape ``(rows,)``.

    Args:
        folder: ``reports/checks/rows/``, written by the checks of this data.
        split: Name of the split.
        rows: Number of its rows.
    """
    leaked = np.zeros(rows, dtype=bool)
    for check in CHECKS_OF_LEAKS:
        path = folder / f"{check}.parquet"
        if not path.exists():
            continue
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=["split", "row", "other_split"]):
                of_split = pc.equal(batch["split"], split)
                like_another = pc.not_equal(batch["other_split"], split)
                numbers = batch["row"].filter(pc.and_(of_split, like_another)).to_numpy()
                if numbers.max(initial=-1) >= rows:
                    raise DataError(
                        f"{path} has rows of other data than the split {split!r}.",
                        "Run `dvc repro validate`.",
                    )
                leaked[numbers] = True
    return leaked
