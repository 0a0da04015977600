"""How often the promotion gate is wrong in a year, and how often it finds a better model: with real models.

Start: ``python -m benchmarks.gate``. Linear models (TF-IDF with logistic regression) are trained on tickets
of the sample, each on another 90 % of the training rows, and predict 16,000 other tickets. A year has
validation rows and a split, drawn from the 16,000, one model in production, and 365 candidates that are no
better on all 16,000 rows. Power is about 30 nights whose candidates are of a training that is two points
better on average: the models in production have seen fewer rows. The same model is judged once.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from tqdm import tqdm

from tuneline.operations.promotion.error_budget import BUDGET_PART, LARGEST_PART, VALIDATION_WEIGHT
from tuneline.rows.splits.sample import Ticket, split_rows, write_tickets

TICKETS = 160_000
ROWS = 1_000
NIGHTS = 365
SOON = 30
ERROR_RATE = 0.05
TRAIN_ROWS = 8_000
WEAK_ROWS = 4_700
"""Training rows of the linear models that are two points worse."""
MODELS = 300
"""Linear models of the better training."""
WEAK_MODELS = 200
CHOSEN_FROM = 40
"""Models of which the luckiest or unluckiest on validation is in production."""
SCREEN = 0.05
"""P-value on validation from which on a rule does not test a candidate."""
SCREENED = 20
"""Tests of a year under this rule."""
OF_YEAR = BUDGET_PART * ERROR_RATE
Right = NDArray[np.bool_]
"""Which rows are predicted correctly, shape ``(models, rows)``."""
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Comparison:
    """Wins and losses of each night's candidate, of shape ``(nights,)``."""

    wins: Counts
    losses: Counts

    @classmethod
    def of(cls, candidates: Right, production: NDArray[np.bool_], rows: Counts) -> Self:
        """Count the rows that only one model predicts correctly; ``production`` has the shape ``(rows,)``."""
        right = candidates[:, rows]
        other = production[rows]
        return cls((right & ~other).sum(axis=1), (~right & other).sum(axis=1))

    @property
    def p_values(self) -> NDArray[np.float64]:
        """Exact one-sided p-values."""
        tails: NDArray[np.float64] = binom.sf(self.wins - 1, self.wins + self.losses, 0.5)
        return tails


Rule = Callable[[Comparison, Comparison], NDArray[np.bool_]]
"""From what validation and the split say about the candidates of each night to the nights that promote."""


def linear_models(rows: int, number: int) -> Right:
    """Train linear models, and say which of the held-out tickets each gets right."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")  # few iterations are enough here
    tickets = list(write_tickets(TICKETS, 0.03, 42))
    numbers = split_rows(TICKETS)
    train = [tickets[row] for row in islice(numbers["train"], TRAIN_ROWS)]
    test = [tickets[row] for row in numbers["test"]]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    vectors = vectorizer.fit_transform(map(_text, train))
    held_out = vectorizer.transform(map(_text, test))
    labels = np.array([ticket.queue for ticket in train])
    queues = np.array([ticket.queue for ticket in test])

    right = []
    for seed in tqdm(range(number), f"linear models of {rows} rows"):
        drawn = np.random.default_rng(seed).choice(rows, int(0.9 * rows), replace=False)
        model = LogisticRegression(C=10, max_iter=40).fit(vectors[drawn], labels[drawn])
        right.append(model.predict(held_out) == queues)
    return np.array(right)


def _text(ticket: Ticket) -> str:
    return f"{ticket.subject} . {ticket.body}"


def at_level(level: float) -> Rule:
    """Return the rule that tests every candidate at one level."""
    return lambda _validation, split: split.p_values <= level


def spending(_validation: Comparison, split: Comparison) -> NDArray[np.bool_]:
    """Spend most of the error probability early: in night t, a part of 6 / (pi t)^2."""
    numbers = np.arange(1, len(split.wins) + 1)
    return split.p_values <= ERROR_RATE * 6 / (np.pi * numbers) ** 2


def ladder(_validation: Comparison, split: Comparison) -> NDArray[np.bool_]:
    """Promote by the Ladder without a parameter: the gain is above one standard error (arXiv:1502.04585)."""
    net = split.wins - split.losses
    error = np.sqrt(split.wins + split.losses - net**2 / ROWS)
    return net > error


def screened(validation: Comparison, split: Comparison) -> NDArray[np.bool_]:
    """Test the first candidates that win on validation, and no more than some a year."""
    passed = validation.p_values <= SCREEN
    tested = passed & (np.cumsum(passed) <= SCREENED)
    return tested & (split.p_values <= OF_YEAR / SCREENED)


def by_validation(validation: Comparison, split: Comparison) -> NDArray[np.bool_]:
    """Let validation set the level of each candidate, as the gate does."""
    smallest = VALIDATION_WEIGHT * OF_YEAR / NIGHTS
    left = OF_YEAR
    levels = []
    for p_value in validation.p_values.tolist():
        largest = LARGEST_PART * left
        level = min(smallest / max(p_value, smallest), largest)
        if largest < smallest:
            level = 0.0
        left -= level
        levels.append(level)
    return split.p_values <= np.array(levels)


RULES: dict[str, Rule] = {
    "McNemar, 5 %, two-sided": at_level(0.025),
    "the Ladder without a parameter": ladder,
    "spent early: 6 / (pi t)^2 of 5 %": spending,
    "equal parts: 4 % / 365": at_level(OF_YEAR / NIGHTS),
    "screened: 20 tests of p <= 0.05 on validation": screened,
    "level by validation: the gate": by_validation,
}


class Year:
    """Draws of validation rows and a split, of production, and of the candidates of each night."""

    def __init__(
        self, weak: Right, strong: Right, seed: int, validation: int = ROWS, split: int = ROWS
    ) -> None:
        self._weak = weak
        self._strong = strong
        self._draw = np.random.default_rng(seed)
        self._sizes = (validation, split)

    def rows(self) -> tuple[Counts, Counts]:
        """Return validation rows and the rows of a split."""
        order = self._draw.permutation(self._strong.shape[1])
        validation, split = self._sizes
        return order[:validation], order[validation : validation + split]

    def candidates(self, models: Right, nights: int) -> Right:
        """Return the candidates of some nights, each once: fewer than nights if there are not as many."""
        return models[self._draw.permutation(len(models))[:nights]]

    def production(self, models: Right, rows: Counts, luck: str) -> NDArray[np.bool_]:
        """Return a model: any one, or of some the one that is best or worst on rows."""
        chosen = models[self._draw.choice(len(models), CHOSEN_FROM, replace=False)]
        right = chosen[:, rows].sum(axis=1)
        if luck == "best":
            return chosen[np.argmax(right)]
        if luck == "worst":
            return chosen[np.argmin(right)]
        return chosen[0]

    def no_better(self, luck: str = "any") -> tuple[Comparison, Comparison]:
        """Return what validation and split say about a year of candidates that are no better."""
        validation, split = self.rows()
        accuracies = self._strong.mean(axis=1)
        eligible = np.argsort(accuracies)[len(accuracies) // 4 :]  # so that several are no better
        production = self.production(self._strong[eligible], validation, luck)
        is_no_better = accuracies <= production.mean()
        is_another = (self._strong != production).any(axis=1)
        candidates = self.candidates(self._strong[is_no_better & is_another], NIGHTS)
        return (
            Comparison.of(candidates, production, validation),
            Comparison.of(candidates, production, split),
        )

    def better(self, luck: str = "any", before: int = 0) -> tuple[Comparison, Comparison, int]:
        """Return the same of 30 nights of a better training, after nights whose candidates are no better.

        The number is the first of the 30 nights.
        """
        validation, split = self.rows()
        production = self.production(self._weak, validation, luck)
        no_better = self._weak[self._weak.mean(axis=1) <= production.mean()]
        is_another = (no_better != production).any(axis=1)
        earlier = self.candidates(no_better[is_another], before)
        candidates = np.concatenate([earlier, self.candidates(self._strong, SOON)])
        return (
            Comparison.of(candidates, production, validation),
            Comparison.of(candidates, production, split),
            len(earlier),
        )


def show(weak: Right, strong: Right, years: int) -> None:
    """Print what the rules do with models of two trainings."""
    gap = strong.mean() - weak.mean()
    discordant = np.mean([weak[index] != strong[index] for index in range(min(len(weak), len(strong)))])
    print(f"{len(weak)} and {len(strong)} models, accuracy {weak.mean():.4f} and {strong.mean():.4f},")
    print(f"{100 * gap:.2f} points apart")
    print(f"discordant: {np.mean(strong[0] != strong[1:]):.1%} of one training, {discordant:.1%} of both")

    for luck in ("any", "worst"):
        show_errors(Year(weak, strong, 0), years, luck)
    for size in (1_000, 1_300, 1_400, 1_500, 2_000, 3_000):
        show_power(Year(weak, strong, 1, size, size), years, f"{size:,} rows and as many of validation")
    for validation, split in ((300, 1_000), (2_000, 1_000), (300, 3_000)):
        year = Year(weak, strong, 1, validation, split)
        show_power(year, years, f"{split:,} rows and {validation:,} of validation")
    for luck in ("best", "worst"):
        year = Year(weak, strong, 1)
        show_power(year, years, f"1,000 rows, production the {luck} of {CHOSEN_FROM} on validation", luck)
    late = "1,000 rows, after a year of candidates that are no better"
    show_power(Year(weak, strong, 1), years, late, before=NIGHTS - SOON)


def show_errors(year: Year, years: int, luck: str) -> None:
    """Print how many years promote a model that is no better."""
    wrong = dict.fromkeys(RULES, 0)
    for _ in tqdm(range(years), "years"):
        comparisons = year.no_better(luck)
        for rule, promotes in RULES.items():
            wrong[rule] += bool(promotes(*comparisons).any())
    print(f"  years that promote a model that is no better (luck of production on validation: {luck})")
    for rule, number in wrong.items():
        print(f"    {rule:46} {number / years:6.1%}")


def show_power(year: Year, years: int, title: str, luck: str = "any", before: int = 0) -> None:
    """Print how often the better training is found within 30 nights, if nothing was promoted before them."""
    found = dict.fromkeys(RULES, 0)
    for _ in tqdm(range(years), title):
        validation, split, first = year.better(luck, before)
        for rule, promotes in RULES.items():
            promoted = promotes(validation, split)
            found[rule] += bool(promoted[first:].any() and not promoted[:first].any())
    print(f"  power within {SOON} nights: {title}")
    for rule, number in found.items():
        print(f"    {rule:46} {number / years:6.1%}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1000)
    options = parser.parse_args(arguments)
    show(linear_models(WEAK_ROWS, WEAK_MODELS), linear_models(TRAIN_ROWS, MODELS), options.years)


if __name__ == "__main__":
    main()
