"""Reader of the raw splits: a few rows at a time, with errors that name file, row and column."""

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tuneline.errors import DataError
from tuneline.files.schemas import LABELS, LabelSchema
from tuneline.files.shards import SplitReader

HINT = "Run `dvc repro -f download`."


class RawSplit:
    """The texts and labels of a split of ``data/raw/``, or of one of its shards.

    Attributes:
        reader: Reader of the files.
        text_columns: Names of the one or two text columns.
        rows: Number of rows.
        labels: Label schema.
    """

    def __init__(self, reader: SplitReader, text_columns: Sequence[str]) -> None:
        """Check the columns.

        Raises:
            DataError: A file is not a complete Parquet file, or a column is missing or does not hold text.
        """
        self.reader, self.text_columns = reader, list(text_columns)
        self.rows = reader.rows
        path, schema = reader.paths[0], reader.schema
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

    def texts(self, at_most: int) -> Iterator[list[str]]:
        """Yield the texts in batches, one column of a batch after the other, to train a tokenizer.

        Args:
            at_most: Maximal number of rows. Of more, every second, third, ... is read, so they are from all parts of the split.
        """
        step, first = max(math.ceil(self.rows / at_most), 1), 0
        for batch in self.batches(self.text_columns):
            yield from (batch[name].to_pylist()[-first % step :: step] for name in self.text_columns)
            first += batch.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns in batches of at most ``ROW_GROUP`` rows.

        Raises:
            DataError: A value is null, or a file is damaged.
        """
        first = 0
        for batch in self.reader.batches(columns):
            for name in batch.schema.names:
                if batch[name].null_count:
                    row = first + batch[name].is_null().index(pa.scalar(True)).as_py()
                    raise DataError(f"{self.reader.place(row)}: column {name!r} is null.", HINT)
            yield batch
            first += batch.num_rows
