"""Predictions as Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.cli.predict.rows import Row
from tuneline.cli.predict.writing import Columns, Writer
from tuneline.files.schemas import ROW_GROUP


class ParquetWriter(Writer):
    """Gathers rows into row groups; kept columns are text."""

    def __init__(self, columns: Columns, path: Path) -> None:
        super().__init__(columns)
        fields = [pa.field("row", pa.int64()), *(pa.field(name, pa.string()) for name in columns.renamed)]
        fields += [pa.field(name, pa.string() if name == "label" else pa.float32()) for name in columns.predicted]
        self._schema = pa.schema(fields)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[list[Any]] = []

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Takes rows; writes when a row group is full."""
        for row, values in zip(rows, self.predicted(outputs), strict=True):
            kept = [None if value is None else str(value) for value in row.kept.values()]
            self._waiting.append([row.number, *kept, *values])
            if len(self._waiting) == ROW_GROUP:
                self._flush()

    def close(self) -> None:
        """Writes the last row group and the directory of the file."""
        if self._waiting:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        columns = zip(*self._waiting, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._file.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._waiting.clear()
