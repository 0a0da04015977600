"""Reader of the raw splits: one row group at a time, with errors that name file, row and column."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError
from tuneline.files.schemas import LABELS, ROW_GROUP, LabelSchema

HINT = "Run `dvc repro -f download`."


class RawSplit:
    """One file of ``data/raw/``.

    Attributes:
        path: The file.
        text_columns: Names of the one or two text columns.
        rows: Number of rows.
        labels: Label schema.
    """

    def __init__(self, path: Path, text_columns: Sequence[str]) -> None:
        """Open the file and check its columns.

        Raises:
            DataError: The file is not a complete Parquet file, or a column is missing or does not hold text.
        """
        self.path, self.text_columns = path, list(text_columns)
        try:
            self._file = pq.ParquetFile(path)
        except pa.ArrowException as error:
            raise DataError(f"{path} cannot be read: {error}", HINT) from None
        self.rows: int = self._file.metadata.num_rows
        schema = self._file.schema_arrow
        for name in [*self.text_columns, LABELS]:
            if name not in schema.names:
                known = ", ".join(schema.names)
                raise DataError(f"{path} has no column {name!r}; it has {known}.", f"Check data.text_columns. {HINT}")
        for name in self.text_columns:
            if not pa.types.is_string(schema.field(name).type):
                raise DataError(f"{path}: column {name!r} is {schema.field(name).type}, not text.", HINT)
        try:
            self.labels = LabelSchema.of(schema)
        except DataError as error:
            raise DataError(f"{path}: {error.problem}", HINT) from None

    def texts(self) -> Iterator[list[str]]:
        """Yield the texts in batches, one column of a batch after the other, to train a tokenizer."""
        for batch in self.batches(self.text_columns):
            yield from (batch[name].to_pylist() for name in self.text_columns)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns in batches of at most ``ROW_GROUP`` rows.

        Raises:
            DataError: A value is null, or the file is damaged.
        """
        first = 0
        try:
            for batch in self._file.iter_batches(batch_size=ROW_GROUP, columns=list(columns)):
                self._refuse_nulls(batch, first)
                yield batch
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path} cannot be read after row {first}: {error}", HINT) from None

    def _refuse_nulls(self, batch: pa.RecordBatch, first: int) -> None:
        for name in batch.schema.names:
            if batch[name].null_count:
                row = first + batch[name].is_null().index(pa.scalar(True)).as_py()
                raise DataError(f"{self.path}, row {row}: column {name!r} is null.", HINT)
