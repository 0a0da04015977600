"""The embedded sample as a source: support tickets, split 8 : 1 : 1."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from stages.download.source import SourceColumns, SourceSplit, batches_of
from stages.download.tickets.generator import QUEUES, Ticket, write_tickets
from tuneline.errors import DataError
from tuneline.params.data import SampleParams
from tuneline.paths import SPLITS
from tuneline.readers.rows import listed, nearest


class Sample:
    """Support tickets with the columns ``subject``, ``body`` and ``queue``. It needs neither network nor files."""

    def __init__(self, params: SampleParams, seed: int) -> None:
        self.params = params
        self.seed = seed
        held_out = params.rows // 10
        self.ranges = {
            "train": (0, params.rows - 2 * held_out),
            "validation": (params.rows - 2 * held_out, params.rows - held_out),
            "test": (params.rows - held_out, params.rows),
        }

    def read(self, split: str, columns: SourceColumns) -> SourceSplit:
        """Generate the tickets of one split.

        Raises:
            DataError: The sample has no such split or column.
        """
        if split not in self.ranges:
            raise DataError(f"data.splits: the sample has no split {split!r}{nearest(split, SPLITS)}.", f"It has {listed(SPLITS)}.")
        columns.check(Ticket._fields, "sample")
        if columns.regression:
            raise DataError("data.task: the sample's labels are classes, not numbers.", "Set data.task to classification.")
        return SourceSplit(f"sample, split {split}", "row", batches_of(self._rows(split, columns), columns.schema), QUEUES)

    def _rows(self, split: str, columns: SourceColumns) -> Iterator[tuple[Any, ...]]:
        start, stop = self.ranges[split]
        indices = [Ticket._fields.index(name) for name in (*columns.text_columns, *columns.grouped, columns.label_column)]
        tickets = islice(write_tickets(self.params.rows, self.params.mislabelled, self.seed), start, stop)
        for position, ticket in enumerate(tickets, start=1):
            yield (*(ticket[index] for index in indices), position)

    def provenance(self) -> dict[str, Any]:
        """Return the generator's inputs."""
        return {"rows": self.params.rows, "mislabelled": self.params.mislabelled, "seed": self.seed}
