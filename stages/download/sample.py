"""The embedded sample as a source: support tickets, (subject, body) -> queue, split 8 : 1 : 1.

The same seed gives the same tickets, on every machine.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from stages.download import phrases
from stages.download.source import SourceColumns, SourceSplit, batches_of
from tuneline.errors import DataError
from tuneline.params.data import SampleParams
from tuneline.paths import SPLITS
from tuneline.readers.rows import listed, nearest

QUEUES = tuple(sorted(phrases.TOPICS))
TOPICS_IN_A_TICKET = (0.45, 0.5, 0.05)
"""Shares of tickets that name one, two or three topics, each of another queue. One of them is broken: it decides."""
TOPIC_IN_SUBJECT = 0.15
"""Share of the tickets whose subject names one of their topics, whichever. The other subjects say nothing."""
SETTLED_FIRST = 0.85
"""Share of the tickets with two topics or more that begin with what is settled, as people do. A bag of words cannot see the
order; a small model sees it first, and from there learns what is said of which topic. With 0.5 it stays for thousands of
steps where the bag of words is."""
GREETED, CONTEXT_GIVEN, CLOSED = 0.65, 0.7, 0.65
"""Shares of the tickets with these. They say nothing about the queue either."""


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


class Ticket(NamedTuple):
    """One row of the sample."""

    subject: str
    body: str
    queue: str


def write_tickets(rows: int, mislabelled: float, seed: int) -> Iterator[Ticket]:
    """Writes tickets, each body another one, also when case and white space are ignored.

    Args:
        rows: How many.
        mislabelled: Share that carries a wrong queue. Spread evenly: of any ``n`` tickets in a row, ``n * mislabelled`` do, give
            or take one.
        seed: Other seeds give other tickets.
    """
    writer = _Writer(seed)
    mistakes = _Writer(seed + 1)  # apart, so that the texts do not depend on how many are mislabelled
    seen: set[str] = set()
    for row in range(rows):
        ticket = writer.ticket()
        while (text := normalised(ticket.body)) in seen:
            ticket = writer.ticket()
        seen.add(text)
        wrong = int((row + 1) * mislabelled) > int(row * mislabelled)
        yield ticket._replace(queue=mistakes.other_queue(ticket.queue)) if wrong else ticket


def normalised(text: str) -> str:
    """A text without the differences that no reader would call one: case and white space."""
    return " ".join(text.casefold().split())


class _Writer:
    """Draws from the phrases. Only ``random()`` is used: it is the one method whose numbers Python promises to keep."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed).random  # noqa: S311 - chance, not secrecy

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.chance() * len(options))]

    def pick_some(self, options: Sequence[str], count: int) -> list[str]:
        left = list(options)
        return [left.pop(int(self.chance() * len(left))) for _ in range(count)]

    def other_queue(self, queue: str) -> str:
        return self.pick([name for name in QUEUES if name != queue])

    def ticket(self) -> Ticket:
        queues = self.pick_some(QUEUES, self.number_of_topics())
        topics = [self.pick(phrases.TOPICS[queue]) for queue in queues]
        return Ticket(self.subject(topics), self.body(topics), queues[0])

    def number_of_topics(self) -> int:
        chance, one_or_two = self.chance(), sum(TOPICS_IN_A_TICKET[:2])
        return 1 if chance < TOPICS_IN_A_TICKET[0] else 2 if chance < one_or_two else 3

    def subject(self, topics: list[str]) -> str:
        if self.chance() < TOPIC_IN_SUBJECT:
            return self.sentence(self.pick(phrases.TOPIC_SUBJECTS).replace("{x}", self.pick(topics)))
        return self.sentence(self.pick(phrases.PLAIN_SUBJECTS))

    def body(self, topics: list[str]) -> str:
        sentences = [
            self.pick(phrases.GREETINGS) if self.chance() < GREETED else "",
            self.matter(*topics),
            self.pick(phrases.CONTEXTS) if self.chance() < CONTEXT_GIVEN else "",
            self.pick(phrases.CLOSINGS) if self.chance() < CLOSED else "",
        ]
        return " ".join(self.sentence(sentence) for sentence in sentences if sentence)

    def matter(self, broken: str, *settled: str) -> str:
        """What the ticket is about: the broken topic, among those that are settled."""
        trouble = self.pick(phrases.BROKEN).replace("{x}", broken)
        if not settled:
            return self.pick(phrases.ALONE).replace("{b}", trouble)
        order = phrases.SETTLED_THEN_BROKEN if self.chance() < SETTLED_FIRST else phrases.BROKEN_THEN_SETTLED
        fine = [clause.replace("{x}", topic) for clause, topic in zip(self.pick_some(phrases.SETTLED, len(settled)), settled, strict=True)]
        return self.pick(order).replace("{b}", trouble).replace("{s}", " and ".join(fine))

    def sentence(self, text: str) -> str:
        """Fills in names, days and things, and starts with a capital."""
        while "{" in text:
            before, _, rest = text.partition("{")
            kind, _, after = rest.partition("}")
            text = f"{before}{self.detail(kind)}{after}"
        return text[:1].upper() + text[1:]

    def detail(self, kind: str) -> str:
        return str(10_000 + int(self.chance() * 90_000)) if kind == "order" else self.pick(phrases.FILLERS[kind])
