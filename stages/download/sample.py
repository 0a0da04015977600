"""The embedded sample as a source: support tickets, (subject, body) -> queue, split 8 : 1 : 1.

The same seed gives the same tickets, on every machine.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from stages.download.source import SourceFile, SourceSplit
from tuneline.core.errors import DataError
from tuneline.core.paths import SPLITS
from tuneline.core.tables import ROW_GROUP
from tuneline.params.data import SampleParams
from tuneline.readers.inputs import ValueBatch
from tuneline.readers.labelled import LabelledColumns, labelled_batches
from tuneline.readers.rows import BadRows, listed, nearest

PHRASES = json.loads((Path(__file__).parent / "templates/tickets.json").read_text(encoding="utf-8"))
"""What tickets are made of.

Topics, by queue, are singular noun phrases, so that they fit every clause. Clauses in ``broken`` name what is
wrong, and so decide the queue; clauses in ``settled`` name what is not, or no longer, wrong; the next three
say how they stand together. Fillers make tickets differ: none says anything about the queue.
"""
TOPICS: dict[str, list[str]] = PHRASES["topics"]
QUEUES = tuple(sorted(TOPICS))
TOPICS_IN_A_TICKET = (0.45, 0.5, 0.05)
"""Fractions of the tickets with one, two or three topics, each of another queue.

The broken topic determines the label.
"""
TOPIC_IN_SUBJECT = 0.15
"""Fraction of the tickets whose subject names one of their topics, broken or settled.

The other subjects are independent of the queue.
"""
SETTLED_FIRST = 0.85
"""Fraction of the tickets with two or more topics that begin with the settled ones.

A bag of words cannot use the order; a small model learns it first, and from it which clause belongs to which
topic. With 0.5 it stays at the accuracy of a bag of words for thousands of steps.
"""
GREETED = 0.65
"""Fraction of the tickets with a greeting; it is independent of the queue, as the next two are."""
CONTEXT_GIVEN = 0.7
"""Fraction of the tickets with a context."""
CLOSED = 0.65
"""Fraction of the tickets with a closing."""


class SampleSource:
    """Support tickets with the columns ``subject``, ``body`` and ``queue``.

    It needs neither network nor files.
    """

    def __init__(self, params: SampleParams, seed: int) -> None:
        self.params = params
        self.seed = seed
        held_out = params.rows // 10
        self.ranges = {
            "train": (0, params.rows - 2 * held_out),
            "validation": (params.rows - 2 * held_out, params.rows - held_out),
            "test": (params.rows - held_out, params.rows),
        }

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Generate the tickets of one split."""
        if split not in self.ranges:
            raise DataError(
                f"data.splits: the sample has no split {split!r}{nearest(split, SPLITS)}.",
                f"It has {listed(SPLITS)}.",
            )
        columns.check(Ticket._fields, "sample")
        if not pa.types.is_string(columns.kind.staged_type):  # its labels are texts
            raise DataError(
                "data.task: the sample's labels are classes, not numbers.", "Set data.task to classification."
            )
        bad = BadRows(f"sample, split {split}", "row", columns.policy)
        batches = ValueBatch.numbered(self._batches(split))
        return SourceSplit.of(SourceFile(bad, labelled_batches(batches, columns, bad), QUEUES))

    def _batches(self, split: str) -> Iterator[pa.RecordBatch]:
        start, stop = self.ranges[split]
        tickets = write_tickets(self.params.rows, self.params.mislabelled, self.seed)
        chosen = islice(tickets, start, stop)
        while chunk := list(islice(chosen, ROW_GROUP)):
            columns = list(map(pa.array, zip(*chunk, strict=True)))
            yield pa.record_batch(columns, Ticket._fields)

    def provenance(self, _rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the generator's inputs."""
        return {"rows": self.params.rows, "mislabelled": self.params.mislabelled, "seed": self.seed}


class Ticket(NamedTuple):
    """One row of the sample."""

    subject: str
    body: str
    queue: str


def write_tickets(rows: int, mislabelled: float, seed: int) -> Iterator[Ticket]:
    """Yield tickets with distinct bodies, also if case and white space are ignored.

    A fraction of them has a wrong queue, spread evenly: of any ``n`` consecutive tickets ``n * mislabelled``,
    plus or minus one.
    """
    writer = _Writer(seed)
    mistakes = _Writer(seed + 1)  # a separate generator: the texts do not depend on `mislabelled`
    seen: set[str] = set()
    for row in range(rows):
        ticket = writer.ticket()
        while normalised(ticket.body) in seen:
            ticket = writer.ticket()
        seen.add(normalised(ticket.body))

        is_mislabelled = int((row + 1) * mislabelled) > int(row * mislabelled)
        if is_mislabelled:
            wrong_queues = [queue for queue in QUEUES if queue != ticket.queue]
            ticket = ticket._replace(queue=mistakes.pick(wrong_queues))
        yield ticket


def normalised(text: str) -> str:
    """Return a text in lower case with single spaces, to compare bodies."""
    return " ".join(text.casefold().split())


class _Writer:
    """Generator of tickets.

    It uses only ``random()``, the one method whose numbers stay the same in all versions of Python.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random  # noqa: S311 - no secrets

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.random() * len(options))]

    def pick_some(self, options: Sequence[str], count: int) -> list[str]:
        left = list(options)
        picked = []
        for _ in range(count):
            position = int(self.random() * len(left))
            picked.append(left.pop(position))
        return picked

    def ticket(self) -> Ticket:
        # number of topics
        drawn = self.random()
        if drawn < TOPICS_IN_A_TICKET[0]:
            number = 1
        elif drawn < sum(TOPICS_IN_A_TICKET[:2]):
            number = 2
        else:
            number = 3

        queues = self.pick_some(QUEUES, number)
        topics = [self.pick(TOPICS[queue]) for queue in queues]
        return Ticket(self.subject(topics), self.body(topics), queues[0])

    def subject(self, topics: list[str]) -> str:
        if self.random() < TOPIC_IN_SUBJECT:
            return self.sentence(self.pick(PHRASES["topic subjects"]).replace("{x}", self.pick(topics)))
        return self.sentence(self.pick(PHRASES["plain subjects"]))

    def body(self, topics: list[str]) -> str:
        # All sentences are drawn before any of them is filled in: the order of the draws makes the ticket.
        sentences = []
        if self.random() < GREETED:
            sentences.append(self.pick(PHRASES["greetings"]))
        sentences.append(self.matter(*topics))
        if self.random() < CONTEXT_GIVEN:
            sentences.append(self.pick(PHRASES["contexts"]))
        if self.random() < CLOSED:
            sentences.append(self.pick(PHRASES["closings"]))
        return " ".join(map(self.sentence, sentences))

    def matter(self, broken: str, *settled: str) -> str:
        """Return the sentence about the broken topic and the settled ones."""
        trouble = self.pick(PHRASES["broken"]).replace("{x}", broken)
        if not settled:
            return self.pick(PHRASES["alone"]).replace("{b}", trouble)
        if self.random() < SETTLED_FIRST:
            orders = PHRASES["settled then broken"]
        else:
            orders = PHRASES["broken then settled"]
        clauses = self.pick_some(PHRASES["settled"], len(settled))
        fine = []
        for clause, topic in zip(clauses, settled, strict=True):
            fine.append(clause.replace("{x}", topic))
        return self.pick(orders).replace("{b}", trouble).replace("{s}", " and ".join(fine))

    def sentence(self, text: str) -> str:
        """Fill in the placeholders, and capitalize the first letter."""
        while "{" in text:
            before, _, rest = text.partition("{")
            kind, _, after = rest.partition("}")
            text = f"{before}{self.detail(kind)}{after}"
        return text[:1].upper() + text[1:]

    def detail(self, kind: str) -> str:
        if kind == "order":
            return str(10_000 + int(self.random() * 90_000))
        return self.pick(PHRASES["fillers"][kind])
