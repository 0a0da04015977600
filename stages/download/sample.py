"""The embedded sample as a source: support tickets, (subject, body) -> queue, split 8 : 1 : 1.

The same seed gives the same tickets, on every machine.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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

TOPICS: dict[str, tuple[str, ...]] = {
    "account": (
        *("my login", "the password reset", "my user name", "the e-mail address on my profile", "my customer profile"),
        *("the two-step sign-in", "my newsletter setting", "the access for my wife", "the verification code", "my old account"),
    ),
    "billing": (
        *("the invoice", "my last bill", "the card payment", "the direct debit", "the monthly charge", "the VAT number on the receipt"),
        *("the discount code", "the second instalment", "the payment reminder", "the amount you took"),
    ),
    "delivery": (
        *("the parcel", "the shipment", "the courier appointment", "the tracking page", "the delivery address", "the pick-up point"),
        *("the second box of the order", "the express shipping", "the customs form", "the drop-off at my neighbour's"),
    ),
    "returns": (
        *("the exchange", "the return label", "the refund for the jacket", "the size I took by mistake", "the item I sent back"),
        *("the return window", "the replacement", "the restocking deduction", "the collection of the broken chair"),
        *("the store credit for my return",),
    ),
    "technical": (
        *("the app", "the firmware update", "the remote control", "the pairing with my phone", "the touch screen"),
        *("the battery of the tablet", "the wireless connection", "the setup wizard", "the noise from the fan"),
        *("the speaker on the left",),
    ),
}
"""Per queue, what a ticket can be about. Singular noun phrases, so that they fit every clause below."""

BROKEN: tuple[str, ...] = (
    *("{x} is still a problem", "{x} is wrong", "{x} is a mess", "{x} needs your attention", "{x} went wrong again"),
    *("{x} makes no sense to me", "{x} is giving me a headache", "{x} remains broken"),
)
"""Clauses that name what is wrong, and so decide the queue."""

SETTLED: tuple[str, ...] = (
    *("{x} is fine now", "{x} is all right again", "{x} is settled", "{x} has been sorted out", "{x} gives me no more trouble"),
    *("{x} turned out well", "{x} works as agreed", "{x} was solved by your colleague"),
)
"""Clauses that name what is not, or no longer, wrong."""

SETTLED_THEN_BROKEN: tuple[str, ...] = (
    *("{s}, but {b}.", "{s}. However, {b}.", "{s}; {b}, though.", "{s}, and yet {b}.", "while {s}, {b}."),
)
BROKEN_THEN_SETTLED: tuple[str, ...] = (
    *("{b}, but {s}.", "{b}, although {s}.", "{b}. At least {s}.", "{b}. On the other hand, {s}.", "{b}, even though {s}."),
)
ALONE: tuple[str, ...] = (
    *("{b}.", "to cut it short: {b}.", "{b}, and I do not know why.", "{b}. That is all.", "since {weekday} it is like this: {b}."),
)
"""How the clauses stand together: ``{b}`` is what is broken, ``{s}`` what is settled."""

GREETINGS: tuple[str, ...] = (*("Hello,", "Hi there,", "Dear team,", "Good morning,", "Good evening,"),)
CONTEXTS: tuple[str, ...] = (
    *("My order number is {order}.", "I have been a customer since {year}.", "We spoke on {weekday}, I think with {name}."),
    *("I wrote to you {days} days ago already.", "This is about order {order} from {month}."),
    *("In {month} I bought this {product} from you.", "For our office in {place} we ordered your {product} {count} times."),
    *("The {product} was my present to {name} in {month}.", "You know me from ticket {order}."),
    *("{name} from your {place} office asked me to write.", "I am writing for my mother, who bought the {product}."),
    *("This is not my first letter about order {order}, I fear.", "After {days} days in the queue of your hotline I try it this way."),
    *("Reference {order}, {product}, bought in {month} {year}.",),
)
CLOSINGS: tuple[str, ...] = (
    *("Thanks, {name}", "Kind regards, {name}", "Please answer by {weekday}.", "I am at home until {weekday}."),
    *("You can call me in the morning.", "Best wishes from {place}", "Thank you for your time.", "Sent from my phone"),
    *("I look forward to your answer. {name}", "{name}, customer since {year}", "Is there anything you need from me?"),
    *("I would be glad to hear from you before {month}.",),
)

PLAIN_SUBJECTS: tuple[str, ...] = (
    *("Question", "Help", "Please help", "My order", "Order {order}", "Order {order}, again", "Following up", "Ticket {order}"),
    *("Two things", "No answer yet", "{product}", "{product} from {month}", "Hello from {place}", "Request", "A word about my {product}"),
    *("Message for {name}", "Still waiting", "Urgent!", "(no subject)", "News?"),
)
TOPIC_SUBJECTS: tuple[str, ...] = ("{x}", "Re: {x}", "About {x}", "{x}, order {order}", "Question on {x}")

FILLERS: dict[str, tuple[str, ...]] = {
    "name": (
        *("Amina", "Bela", "Carlos", "Dorothea", "Emil", "Farah", "Gustav", "Hanne", "Ines", "Jonas", "Keiko", "Lothar"),
        *("Mirela", "Noor", "Oskar", "Paula", "Quentin", "Rosa", "Selim", "Tomasz", "Ulla", "Vera", "Wanda", "Yusuf", "Zoe"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (*("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"),),
    "product": (
        *("kettle", "doorbell", "desk lamp", "rain jacket", "tablet", "headset", "coffee grinder", "rucksack", "printer"),
        *("garden chair", "bicycle light", "baby monitor", "kitchen scale", "air purifier", "tent", "bookshelf", "smart plug"),
        *("hair dryer", "radio", "toaster"),
    ),
    "place": (
        *("Aarhus", "Bergen", "Cork", "Dresden", "Ghent", "Graz", "Leeds", "Lyon", "Malmo", "Nantes", "Porto", "Riga", "Seville"),
        *("Tartu", "Turin", "Utrecht", "Vilnius", "York"),
    ),
    "days": ("two", "three", "four", "five", "six", "eight", "nine", "ten", "twelve", "fourteen"),
    "count": ("two", "three", "four", "five", "six", "ten", "twelve", "twenty"),
    "year": tuple(str(year) for year in range(2009, 2026)),
}
"""Names, days and things, to make tickets differ. None says anything about the queue."""


QUEUES = tuple(sorted(TOPICS))
TOPICS_IN_A_TICKET = (0.45, 0.5, 0.05)
"""Fractions of the tickets with one, two or three topics, each of another queue. The broken topic determines the label."""
TOPIC_IN_SUBJECT = 0.15
"""Fraction of the tickets whose subject names one of their topics, broken or settled. The other subjects are independent of the queue."""
SETTLED_FIRST = 0.85
"""Fraction of the tickets with two or more topics that begin with the settled ones. A bag of words cannot use the order; a small
model learns it first, and from it which clause belongs to which topic. With 0.5 it stays at the accuracy of a bag of words for
thousands of steps."""
GREETED, CONTEXT_GIVEN, CLOSED = 0.65, 0.7, 0.65
"""Fractions of the tickets with a greeting, a context and a closing, which are independent of the queue."""


class SampleSource:
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

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Generate the tickets of one split.

        Raises:
            DataError: The sample has no such split or column.
        """
        if split not in self.ranges:
            raise DataError(f"data.splits: the sample has no split {split!r}{nearest(split, SPLITS)}.", f"It has {listed(SPLITS)}.")
        columns.check(Ticket._fields, "sample")
        if columns.regression:
            raise DataError("data.task: the sample's labels are classes, not numbers.", "Set data.task to classification.")
        bad = BadRows(f"sample, split {split}", "row", columns.policy)
        return SourceSplit.of(SourceFile(bad, labelled_batches(self._batches(split), columns, bad), QUEUES))

    def _batches(self, split: str) -> Iterator[ValueBatch]:
        start, stop = self.ranges[split]
        tickets = islice(write_tickets(self.params.rows, self.params.mislabelled, self.seed), start, stop)
        first = 1
        while chunk := list(islice(tickets, ROW_GROUP)):
            columns = dict(zip(Ticket._fields, map(pa.array, zip(*chunk, strict=True)), strict=True))
            yield ValueBatch(range(first, first + len(chunk)), columns)
            first += len(chunk)

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

    A fraction of them has a wrong queue, spread evenly: of any ``n`` consecutive tickets ``n * mislabelled``, plus or minus one.
    """
    writer = _Writer(seed)
    mistakes = _Writer(seed + 1)  # a separate generator: the texts do not depend on `mislabelled`
    seen: set[str] = set()
    for row in range(rows):
        ticket = writer.ticket()
        while (text := normalised(ticket.body)) in seen:
            ticket = writer.ticket()
        seen.add(text)
        wrong = int((row + 1) * mislabelled) > int(row * mislabelled)
        yield ticket._replace(queue=mistakes.other_queue(ticket.queue)) if wrong else ticket


def normalised(text: str) -> str:
    """Return a text in lower case with single spaces, to compare bodies."""
    return " ".join(text.casefold().split())


class _Writer:
    """Generator of tickets. It uses only ``random()``, the one method whose numbers stay the same in all versions of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random  # noqa: S311 - no secrets

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.random() * len(options))]

    def pick_some(self, options: Sequence[str], count: int) -> list[str]:
        left = list(options)
        return [left.pop(int(self.random() * len(left))) for _ in range(count)]

    def other_queue(self, queue: str) -> str:
        return self.pick([name for name in QUEUES if name != queue])

    def ticket(self) -> Ticket:
        queues = self.pick_some(QUEUES, self.number_of_topics())
        topics = [self.pick(TOPICS[queue]) for queue in queues]
        return Ticket(self.subject(topics), self.body(topics), queues[0])

    def number_of_topics(self) -> int:
        drawn, one_or_two = self.random(), sum(TOPICS_IN_A_TICKET[:2])
        return 1 if drawn < TOPICS_IN_A_TICKET[0] else 2 if drawn < one_or_two else 3

    def subject(self, topics: list[str]) -> str:
        if self.random() < TOPIC_IN_SUBJECT:
            return self.sentence(self.pick(TOPIC_SUBJECTS).replace("{x}", self.pick(topics)))
        return self.sentence(self.pick(PLAIN_SUBJECTS))

    def body(self, topics: list[str]) -> str:
        sentences = [
            self.pick(GREETINGS) if self.random() < GREETED else "",
            self.matter(*topics),
            self.pick(CONTEXTS) if self.random() < CONTEXT_GIVEN else "",
            self.pick(CLOSINGS) if self.random() < CLOSED else "",
        ]
        return " ".join(self.sentence(sentence) for sentence in sentences if sentence)

    def matter(self, broken: str, *settled: str) -> str:
        """Return the sentence about the broken topic and the settled ones."""
        trouble = self.pick(BROKEN).replace("{x}", broken)
        if not settled:
            return self.pick(ALONE).replace("{b}", trouble)
        order = SETTLED_THEN_BROKEN if self.random() < SETTLED_FIRST else BROKEN_THEN_SETTLED
        fine = [clause.replace("{x}", topic) for clause, topic in zip(self.pick_some(SETTLED, len(settled)), settled, strict=True)]
        return self.pick(order).replace("{b}", trouble).replace("{s}", " and ".join(fine))

    def sentence(self, text: str) -> str:
        """Fill in the placeholders, and capitalize the first letter."""
        while "{" in text:
            before, _, rest = text.partition("{")
            kind, _, after = rest.partition("}")
            text = f"{before}{self.detail(kind)}{after}"
        return text[:1].upper() + text[1:]

    def detail(self, kind: str) -> str:
        return str(10_000 + int(self.random() * 90_000)) if kind == "order" else self.pick(FILLERS[kind])
