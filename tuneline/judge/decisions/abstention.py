"""Which rows a model may answer so that at most a promised share of its answers is wrong.

A row is answered if its confidence is above a threshold. The threshold is chosen by Learn then Test
(Angelopoulos, Bates, Candes, Jordan & Lei 2021, "Learn then Test: Calibrating Predictive Algorithms to
Achieve Risk Control", section 3: fixed sequence testing with binomial p-values): the promise is broken with a
probability of at most ``1 - certainty``, for any model and any number of rows, if new rows are of the same
kind as the independent rows of the evidence.

The thresholds are the confidences of these rows. They are tested downwards until one fails, and the row at
the threshold does not count: those above it are then an independent sample of all rows that are as sure. How
many rows the first one has above it is chosen by other rows, those of validation: as many as pass the test
most probably. To begin with the fewest that could pass is worse, because where labels are wrong, some of the
surest answers are. That a surer answer is not wrong more often is assumed; docs/benchmarks.md has how often
promises are broken on real data, which need not be so.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.decisions.evidence import Evidence, JudgedAnswers
from tuneline.judge.decisions.rule import ANSWERED
from tuneline.model.tasks.task import Floats

STARTS = 60
"""Numbers of rows of which one is the first to be tested."""


@dataclass(frozen=True)
class Abstention:
    """From which confidence on rows are answered, and what that promises.

    Attributes:
        risk: Largest share of wrong answers.
        threshold: Confidence above which a row is answered; negative: every row is.
        answered: Rows of the evidence that are answered.
        wrong: Wrong answers among them.
        rows: Rows of the evidence.
    """

    risk: float
    threshold: float
    answered: int
    wrong: int
    rows: int

    @property
    def coverage(self) -> float:
        """Share of the rows that are answered."""
        return self.answered / self.rows


class NoPromiseError(Exception):
    """The rows do not show that so few answers are wrong. The message says what is missing."""


def fewest_rows(risk: float, certainty: float) -> int:
    """Return how many answered rows without an error a promise needs at least."""
    return math.ceil(math.log(1 - certainty) / math.log(1 - risk))


def promised_abstention(evidence: Evidence, risk: float, certainty: float) -> Abstention:
    """Return the lowest threshold above which at most ``risk`` of the answers are wrong, as far as rows show.

    Args:
        evidence: Answers to rows that promise, and to rows that choose where the tests start.
        risk: Largest share of wrong answers, above 0 and below 1.
        certainty: Probability with which the promise holds.

    Raises:
        NoPromiseError: There are too few rows, or too many of their answers are wrong.
    """
    from scipy.stats import binom

    rows = evidence.promising
    needed = fewest_rows(risk, certainty)
    promise = f"{100 * risk:.3g} % at {100 * certainty:.3g} %"
    if len(rows) < needed:
        raise NoPromiseError(
            f"{promise} needs at least {needed:,} answered rows without an error; there are {len(rows):,}"
        )

    # the surest rows first: above each threshold are those that come before it, without its equals
    confidence, wrong_before = _surest_first(rows)
    thresholds = np.append(confidence, ANSWERED)
    answered = np.searchsorted(-confidence, -thresholds, side="left")
    wrong = wrong_before[answered]

    # from the start downwards, until one fails
    first = first_tested(evidence.choosing, len(rows), risk, certainty)
    start = int(np.argmax(answered >= first))  # after answers that are equally sure
    p_values = binom.cdf(wrong[start:], answered[start:], risk)
    fails = np.append(p_values > 1 - certainty, True)
    passed = int(np.argmax(fails))
    if passed == 0:
        raise NoPromiseError(
            f"{promise} cannot be promised: of the {answered[start]:,} rows that the model is surest of,"
            f" {wrong[start]:,} {_are(int(wrong[start]))} wrong"
        )
    last = start + passed - 1
    return Abstention(risk, float(thresholds[last]), int(answered[last]), int(wrong[last]), len(rows))


def _surest_first(rows: JudgedAnswers) -> tuple[Floats, NDArray[np.int64]]:
    """Return confidences from high to low, and how many answers before each, and of all, are wrong."""
    order = np.argsort(-rows.confidence, kind="stable")
    return rows.confidence[order], np.append(0, np.cumsum(~rows.right[order]))


def first_tested(choosing: JudgedAnswers, rows: int, risk: float, certainty: float) -> int:
    """Return how many of the surest ``rows`` that promise are tested first.

    It is the number that passes most probably if answers are wrong as often as among the same share of the
    rows that choose, where one more is taken to be wrong: few rows without an error do not show that there
    are none.
    """
    from scipy.stats import binom

    needed = fewest_rows(risk, certainty)
    numbers = np.unique(np.geomspace(needed, rows, STARTS).astype(np.int64))
    _, wrong_before = _surest_first(choosing)
    shares = numbers / rows * len(choosing)
    wrong = wrong_before[np.round(shares).astype(np.int64)]
    expected = np.minimum((wrong + 1) / (shares + 2), 1.0)

    most_wrong = binom.ppf(1 - certainty, numbers, risk)
    most_wrong -= binom.cdf(most_wrong, numbers, risk) > 1 - certainty
    return int(numbers[np.argmax(binom.cdf(most_wrong, numbers, expected))])


def promised_abstentions(evidence: Evidence, risks: Sequence[float], certainty: float) -> list[Abstention]:
    """Return what can be promised of some risks, in their order, without those that cannot be promised."""
    promised = []
    for risk in risks:
        with suppress(NoPromiseError):
            promised.append(promised_abstention(evidence, risk, certainty))
    return promised


def observed_risks(rows: JudgedAnswers) -> tuple[Floats, Floats]:
    """Return the share of wrong answers where only the surest rows are answered.

    Returns:
        Shares of rows that are answered, ascending, and shares of wrong answers among them.
    """
    _, wrong_before = _surest_first(rows)
    numbers = np.arange(1, len(rows) + 1)
    return numbers / len(rows), wrong_before[1:] / numbers


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
