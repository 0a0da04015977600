"""The embedded sample as a source: support tickets, shared out 8 : 1 : 1."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from stages.download.columns import did_you_mean, find_columns, listed
from stages.download.reading import Reading, Wanted, batches_of
from stages.download.tickets.generator import QUEUES, Ticket, write_tickets
from tuneline.errors import DataError
from tuneline.params.data import SampleParams
from tuneline.paths import SPLITS


class Sample:
    """Support tickets with the columns ``subject``, ``body`` and ``queue``. Needs no network and no file."""

    def __init__(self, params: SampleParams, seed: int) -> None:
        self.params = params
        self.seed = seed
        held_out = params.rows // 10
        self.ranges = {
            "train": (0, params.rows - 2 * held_out),
            "validation": (params.rows - 2 * held_out, params.rows - held_out),
            "test": (params.rows - held_out, params.rows),
        }

    def read(self, split: str, wanted: Wanted) -> Reading:
        """Writes the tickets of one split.

        Raises:
            DataError: Tickets have no such split or column.
        """
        if split not in self.ranges:
            raise DataError(f"data.splits: the sample has no split {split!r}{did_you_mean(split, SPLITS)}.", f"It has {listed(SPLITS)}.")
        find_columns(Ticket._fields, wanted, "sample")
        if wanted.regression:
            raise DataError("data.task: the sample's labels are classes, not numbers.", "Set data.task to classification.")
        return Reading(f"sample, split {split}", "row", batches_of(self._rows(split, wanted), wanted.schema), QUEUES)

    def _rows(self, split: str, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
        start, stop = self.ranges[split]
        columns = [Ticket._fields.index(name) for name in (*wanted.text_columns, wanted.label_column)]
        tickets = islice(write_tickets(self.params.rows, self.params.mislabelled, self.seed), start, stop)
        for place, ticket in enumerate(tickets, start=1):
            yield (*(ticket[column] for column in columns), place)

    def provenance(self) -> dict[str, Any]:
        """The generator's inputs."""
        return {"rows": self.params.rows, "mislabelled": self.params.mislabelled, "seed": self.seed}
