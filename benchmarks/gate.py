"""How often the promotion gate is wrong in a year, and how often it finds a better model: with real models.

Start: ``python -m benchmarks.gate``. Linear models (TF-IDF with logistic regression) are trained on tickets
of the sample, each on another 90 % of the training rows, and predict 16,000 other tickets. A year has a split
of 1,000 rows, drawn from the 16,000, one model in production, and 365 candidates that are no better on all
16,000 rows. Power is about 30 nights whose candidates are of a training that is two points better on average:
the models in production have seen fewer rows.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from tqdm import tqdm

from stages.download.sample import Ticket, split_rows, write_tickets
from tuneline.gating.discordant_rows import Votes, log_e_value
from tuneline.gating.error_budget import CHALLENGERS, NEW_ROWS_PART

TICKETS = 160_000
ROWS = 1_000
NIGHTS = 365
SOON = 30
ERROR_RATE = 0.05
TRAIN_ROWS = 8_000
WEAK_ROWS = 4_700
"""Training rows of the linear models that are two points worse."""
Right = NDArray[np.bool_]
"""Which rows are predicted correctly, shape ``(models, rows)``."""
Rule = Callable[[int, NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""From a number of nights, and the wins and losses of each night's candidate, to the nights that promote."""


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


def p_values(wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the exact one-sided p-values."""
    tails: NDArray[np.float64] = binom.sf(wins - 1, wins + losses, 0.5)
    return tails


def at_level(level: float) -> Rule:
    """Return the rule that tests every candidate at one level."""
    return lambda _nights, wins, losses: p_values(wins, losses) <= level


def spending(nights: int, wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Spend most of the error probability early: in night t, a part of 6 / (pi t)^2."""
    numbers = np.arange(1, nights + 1)
    return p_values(wins, losses) <= ERROR_RATE * 6 / (np.pi * numbers) ** 2


def ladder(_nights: int, wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Promote by the Ladder without a parameter: the gain is above one standard error (arXiv:1502.04585)."""
    error = np.sqrt(wins + losses - (wins - losses) ** 2 / ROWS)
    return wins - losses > error


RULES: dict[str, Rule] = {
    "today: McNemar, 5 %, two-sided": at_level(0.025),
    "the Ladder without a parameter": ladder,
    "spent early: 6 / (pi t)^2 of 5 %": spending,
    "equal parts: 4 % / 365": at_level((1 - NEW_ROWS_PART) * ERROR_RATE / NIGHTS),
}


def night_votes(
    draw: np.random.Generator, production: Right, candidates: Right, nights: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return wins and losses of each night's candidate on the rows of one split.

    ``production`` has the shape ``(rows,)``. With fewer models than nights, some are candidates again.
    """
    rows = draw.integers(candidates.shape[1], size=size)
    chosen = draw.choice(len(candidates), nights, replace=nights > len(candidates))
    right = candidates[chosen][:, rows]
    other = production[rows]
    return (right & ~other).sum(axis=1), (~right & other).sum(axis=1)


def show(weak: Right, strong: Right, years: int) -> None:
    """Print what the rules do with models of two trainings."""
    gap = strong.mean() - weak.mean()
    discordant = np.mean([weak[index] != strong[index] for index in range(min(len(weak), len(strong)))])
    print(f"{len(weak)} and {len(strong)} models, accuracy {weak.mean():.4f} and {strong.mean():.4f},")
    print(f"{100 * gap:.2f} points apart")
    print(f"discordant: {np.mean(strong[0] != strong[1:]):.1%} of one training, {discordant:.1%} of both")
    show_errors(strong, years)
    show_power(weak, strong, years)
    show_new_rows(weak, strong, years)


def show_errors(models: Right, years: int) -> None:
    """Print how many years promote a model that is no better."""
    draw = np.random.default_rng(0)
    wrong = dict.fromkeys(RULES, 0)
    accuracies = models.mean(axis=1)
    eligible = np.argsort(accuracies)[len(models) // 4 :]  # so that several are no better
    for _ in tqdm(range(years), "years"):
        production = draw.choice(eligible)
        no_better = np.flatnonzero(accuracies <= accuracies[production])
        no_better = no_better[no_better != production]
        votes = night_votes(draw, models[production], models[no_better], NIGHTS, ROWS)
        for rule, promotes in RULES.items():
            wrong[rule] += bool(promotes(NIGHTS, *votes).any())
    for rule, number in wrong.items():
        print(f"  {rule:36} promotes a model that is no better in {number / years:6.1%} of the years")


def show_power(weak: Right, strong: Right, years: int) -> None:
    """Print how often the better training is found within 30 nights, by the rows of the split."""
    for size in (1_000, 1_500, 2_000, 3_000):
        draw = np.random.default_rng(1)
        found = dict.fromkeys(RULES, 0)
        for _ in range(years):
            production = weak[draw.integers(len(weak))]
            votes = night_votes(draw, production, strong, SOON, size)
            for rule, promotes in RULES.items():
                found[rule] += bool(promotes(SOON, *votes).any())
        powers = ", ".join(f"{rule.split(':')[0]} {number / years:.1%}" for rule, number in found.items())
        print(f"  power within {SOON} nights on {size:,} rows: {powers}")


def show_new_rows(weak: Right, strong: Right, years: int) -> None:
    """Print how many newly labelled rows show that one candidate is better, read after every 100 rows."""
    bound = -np.log(NEW_ROWS_PART * ERROR_RATE / CHALLENGERS)
    draw = np.random.default_rng(2)
    needed = []
    wrong = 0
    for _ in range(years):
        production = weak[draw.integers(len(weak))]
        needed.append(_rows_until(draw, strong[draw.integers(len(strong))], production, bound))
        # the other way round: production is the better one
        wrong += _rows_until(draw, production, strong[draw.integers(len(strong))], bound) < np.inf
    quantiles = ", ".join(f"{number:,.0f}" for number in np.quantile(needed, (0.5, 0.8), method="higher"))
    print(
        f"  newly labelled rows until the e-value is {np.exp(bound):,.0f}: {quantiles} (in 50, 80 % of draws)"
    )
    print(f"  a candidate of the worse training reaches it in {wrong / years:.1%} of draws")


def _rows_until(draw: np.random.Generator, candidate: Right, production: Right, bound: float) -> float:
    rows = draw.integers(len(candidate), size=10_000)
    for size in range(100, len(rows) + 1, 100):
        votes = Votes.of(candidate[rows[:size]], production[rows[:size]])
        if log_e_value(votes) >= bound:
            return size
    return np.inf


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1000)
    options = parser.parse_args(arguments)
    show(linear_models(WEAK_ROWS, 40), linear_models(TRAIN_ROWS, 120), options.years)


if __name__ == "__main__":
    main()
