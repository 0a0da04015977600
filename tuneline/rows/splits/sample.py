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

from tuneline.core.params.data import SampleParams
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.tables import ROW_GROUP
from tuneline.rows.reading.labelled import LabelledColumns, labelled_batches
from tuneline.rows.reading.rows import BadRows
from tuneline.rows.reading.tables import ValueBatch
from tuneline.rows.splits.source import SourceSplit

PHRASES = json.loads((Path(__file__).parent / "templates/tickets.json").read_text(encoding="utf-8"))
"""Words of the tickets.

``topics``, by queue, are singular noun phrases, so that they fit every clause. A clause of ``broken`` says
what is wrong, and so decides the queue; a clause of ``settled`` says what is not, or no longer, wrong. The
next two keys join both clauses. These are the task, and all splits share them.

``around`` has, by split, everything else that a ticket says. No two splits share a phrase of it: otherwise
a quarter of the default test rows would be near-copies of earlier rows. Nearly all words of these phrases
are in train, too, because a model that is trained from scratch knows no others. Nothing in ``around``
depends on the queue, nor do the ``fillers`` of its placeholders, which all splits share.
"""
TOPICS: dict[str, list[str]] = PHRASES["topics"]
QUEUES = tuple(sorted(TOPICS))
ONE_TOPIC = 0.45
"""Fraction of the tickets with one topic, which is broken.

The others also have a settled topic of another queue.
"""
TOPIC_IN_SUBJECT = 0.15
"""Fraction of the tickets whose subject names one of their topics, broken or settled.

The other subjects are independent of the queue.
"""
SETTLED_FIRST = 0.7
"""Fraction of the tickets with two topics that begin with the settled one.

A bag of words cannot use the order; a small model learns it first, and from it which clause belongs to which
topic. With 0.5 it stays at the accuracy of a bag of words for thousands of steps.
"""
GREETED, CLOSED = 0.65, 0.5
"""Fractions of the tickets with a greeting and with a closing, which are independent of the queue."""


class SampleSource:
    """Support tickets with the columns ``subject``, ``body`` and ``queue``.

    It needs neither network nor files.
    """

    def __init__(self, params: SampleParams, seed: int) -> None:
        self.params = params
        self.seed = seed

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Generate the tickets of one split."""
        if split not in SPLITS:
            raise DataError(
                f"data.splits: the sample has no split {split!r}.", f"It has {', '.join(SPLITS)}."
            )
        columns.check(Ticket._fields, "sample")
        bad = BadRows(f"sample, split {split}", "row", columns.policy)
        batches = labelled_batches(ValueBatch.numbered(self._batches(split)), columns, bad)
        return SourceSplit(bad.name, [(bad, batches)], QUEUES)

    def _batches(self, split: str) -> Iterator[pa.RecordBatch]:
        rows = split_rows(self.params.rows)[split]
        every_ticket = write_tickets(self.params.rows, self.params.mislabelled, self.seed)
        tickets = islice(every_ticket, rows.start, rows.stop)
        while chunk := list(islice(tickets, ROW_GROUP)):
            columns = zip(*chunk, strict=True)
            yield pa.record_batch([pa.array(column) for column in columns], Ticket._fields)

    def provenance(self, _rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the generator's inputs."""
        return {"rows": self.params.rows, "mislabelled": self.params.mislabelled, "seed": self.seed}


class Ticket(NamedTuple):
    """One row of the sample."""

    subject: str
    body: str
    queue: str


def split_rows(rows: int) -> dict[str, range]:
    """Return the row numbers of each split: train, validation and test follow each other, 8 : 1 : 1."""
    held_out = rows // 10
    validation = rows - 2 * held_out
    test = rows - held_out
    return {"train": range(validation), "validation": range(validation, test), "test": range(test, rows)}


def write_tickets(rows: int, mislabelled: float, seed: int) -> Iterator[Ticket]:
    """Yield the tickets of all splits, in the order of ``split_rows``.

    Bodies are distinct, also if case and white space are ignored. A fraction of the tickets has a wrong
    queue, spread evenly: of any ``n`` consecutive tickets ``n * mislabelled``, plus or minus one.
    """
    writer = _Writer(seed)
    mistakes = _Writer(seed + 1)  # a separate generator: the texts do not depend on `mislabelled`
    seen: set[str] = set()
    for split, numbers in split_rows(rows).items():
        for row in numbers:
            ticket = writer.ticket(split)
            while (text := normalised(ticket.body)) in seen:
                ticket = writer.ticket(split)
            seen.add(text)

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

    def pick_several(self, options: Sequence[str], count: int) -> list[str]:
        """Return ``count`` different options, in random order."""
        left = list(options)
        picked = []
        for _ in range(count):
            picked.append(left.pop(int(self.random() * len(left))))
        return picked

    def ticket(self, split: str) -> Ticket:
        around = PHRASES["around"][split]
        queues = self.pick_several(QUEUES, 1 if self.random() < ONE_TOPIC else 2)
        topics = [self.pick(TOPICS[queue]) for queue in queues]
        subject = self.subject(topics, around)
        body = self.body(topics, around)
        return Ticket(subject, body, queues[0])

    def subject(self, topics: list[str], around: Mapping[str, list[str]]) -> str:
        if self.random() < TOPIC_IN_SUBJECT:
            subject = self.pick(around["topic subjects"]).replace("{x}", self.pick(topics))
        else:
            subject = self.pick(around["subjects"])
        return self.sentence(subject)

    def body(self, topics: list[str], around: Mapping[str, list[str]]) -> str:
        sentences = []
        if self.random() < GREETED:
            sentences.append(self.pick(around["greetings"]))
        sentences.append(self.matter(*topics))
        # Every ticket has one: without, short tickets of two splits about the same would be near-copies.
        sentences.append(self.pick(around["contexts"]))
        if self.random() < CLOSED:
            sentences.append(self.pick(around["closings"]))
        return " ".join(self.sentence(sentence) for sentence in sentences)

    def matter(self, broken: str, settled: str | None = None) -> str:
        """Return the sentence about the broken topic and the settled one, if there is one."""
        broken_clause = self.pick(PHRASES["broken"]).replace("{x}", broken)
        if settled is None:
            return f"{broken_clause}."

        settled_clause = self.pick(PHRASES["settled"]).replace("{x}", settled)
        order = "settled then broken" if self.random() < SETTLED_FIRST else "broken then settled"
        return self.pick(PHRASES[order]).replace("{b}", broken_clause).replace("{s}", settled_clause)

    def sentence(self, text: str) -> str:
        """Fill in the placeholders, and capitalize the first letter."""
        while "{" in text:
            before, _, rest = text.partition("{")
            kind, _, after = rest.partition("}")
            text = f"{before}{self.detail(kind)}{after}"
        return text[:1].upper() + text[1:]

    def detail(self, kind: str) -> str:
        """Return what stands for a placeholder: an order number of five digits, or one of the fillers."""
        if kind == "order":
            return str(10_000 + int(self.random() * 90_000))
        return self.pick(PHRASES["fillers"][kind])
