"""The sample: the same tickets each time, none in two splits, and too difficult for a bag of words."""

import collections

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from stages.download.sample import QUEUES, SampleSource, Ticket, normalised, write_tickets
from tests.params import params
from tuneline.readers.labelled import LabelledColumns

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def tickets() -> dict[str, list[Ticket]]:
    """The default sample, by split."""
    sample = SampleSource(params().data.sample, seed=42)
    wanted = LabelledColumns(("subject", "body"), "queue")
    return {
        split: [
            Ticket(*list(row.values())[:3])
            for file in sample.read(split, wanted).files
            for batch in file.batches
            for row in batch.to_pylist()
        ]
        for split in SPLITS
    }


def test_rows_are_divided_eight_to_one_to_one(tickets: dict[str, list[Ticket]]):
    assert [len(tickets[split]) for split in SPLITS] == [8_000, 1_000, 1_000]


def test_same_seed_gives_the_same_tickets_and_another_seed_gives_others():
    once, again, other = (list(write_tickets(50, 0.03, seed)) for seed in (7, 7, 8))
    assert once == again
    assert not {ticket.body for ticket in once} & {ticket.body for ticket in other}


def test_first_ticket_of_the_default_seed_never_changes():
    """A changed phrase changes every measurement in the documentation."""
    assert next(write_tickets(1, 0.0, 42)) == Ticket(
        subject="Urgent!",
        body=(
            "Dear team, The express shipping gives me no more trouble, but my user name is still a problem. "
            "Oskar from your Turin office asked me to write. Please answer by Monday."
        ),
        queue="account",
    )


def test_bodies_are_distinct_within_and_across_splits(tickets: dict[str, list[Ticket]]):
    bodies = [normalised(ticket.body) for split in SPLITS for ticket in tickets[split]]
    assert len(set(bodies)) == len(bodies)


def test_queues_are_balanced(tickets: dict[str, list[Ticket]]):
    counts = collections.Counter(ticket.queue for ticket in tickets["train"])
    assert set(counts) == set(QUEUES)
    assert min(counts.values()) > 0.17 * 8_000


@pytest.mark.parametrize("fraction", [0.0, 0.03, 0.25])
def test_mislabelled_fraction_is_the_same_in_every_split_and_changes_no_text(fraction: float):
    clean, noisy = list(write_tickets(1_000, 0.0, 42)), list(write_tickets(1_000, fraction, 42))
    assert [ticket[:2] for ticket in clean] == [ticket[:2] for ticket in noisy]
    wrong = [one.queue != other.queue for one, other in zip(clean, noisy, strict=True)]
    for start, stop in ((0, 800), (800, 900), (900, 1_000)):
        assert sum(wrong[start:stop]) == pytest.approx(fraction * (stop - start), abs=1)


def test_bag_of_words_does_not_solve_the_task(tickets: dict[str, list[Ticket]]):
    """It has the topics, but not which of them is broken.

    A transformer reaches well above 0.9 (docs/benchmarks.md).
    """
    words = TfidfVectorizer()
    train, test = (
        [f"{ticket.subject} {ticket.body}" for ticket in tickets[split]] for split in ("train", "test")
    )
    model = LogisticRegression(C=10, max_iter=300).fit(
        words.fit_transform(train), [ticket.queue for ticket in tickets["train"]]
    )
    accuracy = model.score(words.transform(test), [ticket.queue for ticket in tickets["test"]])
    assert 0.5 < accuracy <= 0.8
