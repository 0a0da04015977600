"""Rows of a Parquet file."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.cli.init.layout import Layout
from tuneline.cli.init.rows import Row, as_text
from tuneline.errors import DataError

BATCH = 10_000


class ParquetRows:
    """A Parquet file, read in batches."""

    def __init__(self, path: Path, layout: Layout) -> None:
        if layout.compressed:
            raise DataError(f"{path}: Parquet inside gzip is not read.", "Unpack it: Parquet compresses by itself.")
        self.path = path
        self.layout = layout
        try:
            self._schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is no Parquet file: {error}") from None

    @property
    def columns(self) -> list[str]:
        """Names in the schema."""
        return list(self._schema.names)

    def rows(self) -> Iterator[Row]:
        """Reads the values, as text."""
        for batch in self._batches():
            yield from zip(*([as_text(value) for value in column.to_pylist()] for column in batch.columns), strict=True)

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Writes rows to Parquet files of the same schema."""
        waiting = iter(parts)
        with ExitStack() as open_files:
            writers = {
                part: open_files.enter_context(pq.ParquetWriter(path, self._schema, compression="zstd")) for part, path in targets.items()
            }
            for batch in self._batches():
                chosen = [next(waiting) for _ in range(batch.num_rows)]
                for part, writer in writers.items():
                    rows = batch.filter(pa.array([one == part for one in chosen]))
                    if rows.num_rows:
                        writer.write_batch(rows)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(BATCH)
