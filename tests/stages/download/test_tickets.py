"""The sample: the same tickets each time, none in two splits, and no bag of words that can sort them."""

import collections

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from stages.download.sample import Sample
from stages.download.source import SourceColumns
from stages.download.tickets.generator import QUEUES, Ticket, normalised, write_tickets
from tests.params import params

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def tickets() -> dict[str, list[Ticket]]:
    """The default sample, by split."""
    sample = Sample(params().data.sample, seed=42)
    wanted = SourceColumns(("subject", "body"), "queue")
    return {
        split: [Ticket(*list(row.values())[:3]) for batch in sample.read(split, wanted).batches for row in batch.to_pylist()]
        for split in SPLITS
    }


def test_rows_are_shared_out_eight_to_one_to_one(tickets: dict[str, list[Ticket]]):
    assert [len(tickets[split]) for split in SPLITS] == [8_000, 1_000, 1_000]


def test_the_same_seed_writes_the_same_tickets_and_another_one_others():
    once, again, other = (list(write_tickets(50, 0.03, seed)) for seed in (7, 7, 8))
    assert once == again
    assert not {ticket.body for ticket in once} & {ticket.body for ticket in other}


def test_the_first_ticket_of_the_default_seed_never_changes():
    """A changed phrase changes every figure in the documentation: this is where it shows first."""
    assert next(write_tickets(1, 0.0, 42)) == Ticket(
        subject="Urgent!",
        body="Dear team, The express shipping gives me no more trouble, but my user name is still a problem. "
        "Oskar from your Turin office asked me to write. Please answer by Monday.",
        queue="account",
    )


def test_no_body_stands_in_two_splits_nor_twice_in_one(tickets: dict[str, list[Ticket]]):
    bodies = [normalised(ticket.body) for split in SPLITS for ticket in tickets[split]]
    assert len(set(bodies)) == len(bodies)


def test_queues_are_about_even(tickets: dict[str, list[Ticket]]):
    counts = collections.Counter(ticket.queue for ticket in tickets["train"])
    assert set(counts) == set(QUEUES)
    assert min(counts.values()) > 0.17 * 8_000


@pytest.mark.parametrize("share", [0.0, 0.03, 0.25])
def test_so_many_are_mislabelled_in_every_split_and_the_texts_stay_the_same(share: float):
    clean, noisy = list(write_tickets(1_000, 0.0, 42)), list(write_tickets(1_000, share, 42))
    assert [ticket[:2] for ticket in clean] == [ticket[:2] for ticket in noisy]
    wrong = [one.queue != other.queue for one, other in zip(clean, noisy, strict=True)]
    for start, stop in ((0, 800), (800, 900), (900, 1_000)):
        assert sum(wrong[start:stop]) == pytest.approx(share * (stop - start), abs=1)


def test_a_bag_of_words_does_not_sort_the_tickets(tickets: dict[str, list[Ticket]]):
    """It sees the topics, and not which of them is broken. A model that reads reaches well above 0.9 (docs/benchmarks.md)."""
    words = TfidfVectorizer()
    train, test = ([f"{ticket.subject} {ticket.body}" for ticket in tickets[split]] for split in ("train", "test"))
    model = LogisticRegression(C=10, max_iter=300).fit(words.fit_transform(train), [ticket.queue for ticket in tickets["train"]])
    accuracy = model.score(words.transform(test), [ticket.queue for ticket in tickets["test"]])
    assert 0.5 < accuracy <= 0.8
