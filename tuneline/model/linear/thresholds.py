"""The thresholds of several labels: what all labels share is chosen first, and few rows cannot move a label.

The threshold with the highest F1 of a label with one row of validation is just below that row, wherever the
model has put it, and many other rows may be above it, too. That SCut overfits rare labels is known (Yang
2001, "A Study on Thresholding Strategies for Text Categorization"; Fan & Lin 2007, "A Study on Threshold
Selection for Multi-label Classification"). Here a label counts by its **level**: the logit above which there
are as many rows as have the label (PCut in Yang 2001), and ``MORE_ROWS`` more. Many rows determine it, few
hardly.
The threshold of each label is

    step + mix * level

where step and mix are the same for all labels: with a mix of 0 all labels have one threshold, with 1 each is
predicted about as often as it occurs. They have the best decisions on rows that chose no level, each part of
the rows with the levels of the others. docs/benchmarks.md compares them with other ways.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks.multilabel import HALF
from tuneline.model.tasks.probabilities import sigmoid
from tuneline.model.tasks.task import Floats

if TYPE_CHECKING:
    from tuneline.core.params.train import ThresholdParams

Decisions = NDArray[np.bool_]

LOGIT_OF_NEVER = 20.0
"""Size of the logit of a label that all rows of train have, or none.

Its probability is within 1e-8 of 1 or 0.
"""
FEWEST_ROWS = 10
"""Rows below which no threshold is chosen."""
FOLDS = 5
MORE_ROWS = 3
"""Rows that each label is taken to have in addition.

With 2 to 5, the differences on the data sets of the benchmark were within their noise.
"""
MIXES = (0.0, 0.5, 1.0)
STEPS = 60
"""Steps that are tried for each mix: quantiles of the margins of the labels that rows have."""
MOST_SEARCHED = 10_000
"""Rows by which mix and step are chosen, so that the search takes seconds."""
MOST_OF_LEVEL = 2
"""A label is predicted on validation for at most so many times the rows of its level.

A label that the model cannot tell has nearly the same logit for all rows, and a step would cross all of them.
"""
OWN_ROWS = 20
"""Rows with a label by which its threshold for a precision or recall is half its own, half the shared one."""


def folds_of(rows: int) -> NDArray[np.int64]:
    """Return the fold of each of a number of rows, always the same ones."""
    return np.random.default_rng(0).permutation(rows) % FOLDS


def divisions(rows: int) -> Iterator[tuple[Decisions, Decisions]]:
    """Yield for each fold which of a number of rows are in it, and which are in the others."""
    fold = folds_of(rows)
    for number in range(FOLDS):
        yield fold == number, fold != number


def choose_thresholds(logits: Floats, has_label: Decisions, rule: "ThresholdParams") -> Floats:
    """Return the probability above which a row has each label, shape ``(labels,)``.

    Args:
        logits: Shape ``(rows, labels)``, of rows that the model was not fitted to.
        has_label: Which labels the rows have, of the same shape.
        rule: What to choose. ``half``, fewer than ``FEWEST_ROWS`` rows, or rows without labels give 0.5, as
            does a label that all rows have.
    """
    rows, labels = logits.shape
    if rule.choose == "half" or rows < FEWEST_ROWS or not has_label.any():
        return np.full(labels, HALF)

    # what all labels share
    shift = _held_out_levels(logits, has_label)
    mix, step = _mix_and_step(logits, has_label, shift)
    margins = logits - mix * shift
    times = 1.0
    if rule.target is not None:
        reached = _lowest_at_target(margins.ravel(), has_label.ravel(), rule)
        if reached is None:
            return np.full(labels, HALF)
        step = reached
        if rule.choose == "recall":  # more rows are asked for than have the label
            times = max(times, (margins > step).sum() / has_label.sum())
    thresholds = step + mix * label_levels(logits, has_label)

    # what the rows of a label say
    if rule.target is not None:
        thresholds = _towards_own(thresholds, logits, has_label, rule)
    lowest = label_levels(logits, has_label, times=MOST_OF_LEVEL * times)
    probabilities = sigmoid(np.maximum(thresholds, lowest))
    probabilities[has_label.all(axis=0)] = HALF
    return np.asarray(probabilities, np.float64)


def label_levels(logits: Floats, has_label: Decisions, times: float = 1.0) -> Floats:
    """Return the logit that ``times`` as many rows exceed as have each label, and ``MORE_ROWS`` more.

    It is between the logits of two rows, shape ``(labels,)``.
    """
    rows, labels = logits.shape
    descending = -np.sort(-logits, axis=0)
    exceeding = times * (has_label.sum(axis=0) + MORE_ROWS)

    position = np.clip(exceeding - 0.5, 0, rows - 1)
    above = np.floor(position).astype(int)
    below = np.minimum(above + 1, rows - 1)
    columns = np.arange(labels)
    lower = descending[below, columns]
    # in this order, equal logits give the same number, which none of them exceeds
    return np.asarray(lower + (1 - (position - above)) * (descending[above, columns] - lower))


def _held_out_levels(logits: Floats, has_label: Decisions, times: float = 1.0) -> Floats:
    """Return for each row the levels of the rows of other folds, shape ``(rows, labels)``."""
    levels = np.empty_like(logits)
    for held_out, others in divisions(len(logits)):
        levels[held_out] = label_levels(logits[others], has_label[others], times)
    return levels


def _mix_and_step(logits: Floats, has_label: Decisions, levels: Floats) -> tuple[float, float]:
    """Return the mix and the step with the best decisions, where each row has the ``levels`` of others."""
    every = -(-len(logits) // MOST_SEARCHED)
    lowest = _held_out_levels(logits, has_label, times=MOST_OF_LEVEL)[::every]
    logits = logits[::every]
    has_label = has_label[::every]
    levels = levels[::every]

    best = (-1.0, MIXES[0], 0.0)
    for mix in MIXES:
        margins = logits - mix * levels
        is_allowed = logits > lowest
        for step in _steps(margins, has_label):
            value = _quality((margins > step) & is_allowed, has_label)
            if value > best[0]:
                best = (value, mix, step)
    return best[1], best[2]


def _steps(margins: Floats, has_label: Decisions) -> list[float]:
    """Return steps halfway between two margins, from the highest on; the upper one is of a label of a row."""
    tried = np.quantile(margins[has_label], np.linspace(0.02, 0.98, STEPS), method="nearest")
    ascending = np.unique(margins)
    position = np.searchsorted(ascending, np.unique(tried))
    below = np.where(position > 0, ascending[position - 1], ascending[0] - 1)
    steps: list[float] = ((ascending[position] + below) / 2).tolist()
    return steps[::-1]


def _quality(predicted: Decisions, has_label: Decisions) -> float:
    """Return the mean of macro F1, twice, micro F1, and the share of rows that get exactly their labels.

    Macro F1 is what a model of several labels is judged by. Alone it would give rows many rare labels: a
    wrong one costs it little.
    """
    both = (predicted & has_label).sum(axis=0)
    total = predicted.sum(axis=0) + has_label.sum(axis=0)
    occurring = total > 0
    macro = (2 * both[occurring] / total[occurring]).mean()
    micro = 2 * both.sum() / total.sum()
    exact = (predicted == has_label).all(axis=1).mean()
    return float(2 * macro + micro + exact) / 4


def _towards_own(shared: Floats, logits: Floats, has_label: Decisions, rule: "ThresholdParams") -> Floats:
    """Return thresholds between the shared ones and those at which each label reaches its target.

    The rows with a label are the weight of its own one: a target that is reached on one row is not reached.
    """
    thresholds = shared.copy()
    for label, rows in enumerate(has_label.sum(axis=0).tolist()):
        own = _lowest_at_target(logits[:, label], has_label[:, label], rule)
        if rows and own is not None:
            thresholds[label] += rows / (rows + OWN_ROWS) * (own - shared[label])
    return thresholds


def _lowest_at_target(values: Floats, has_label: Decisions, rule: "ThresholdParams") -> float | None:
    """Return the threshold of values that predicts as many, or as few, rows as the target allows.

    It is halfway between two values; ``None`` if no threshold reaches the target.
    """
    target = rule.target or 0.0
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    with_label = np.cumsum(has_label[order])
    predicted = np.arange(1, len(values) + 1)
    if rule.choose == "precision":
        reaches = with_label / predicted >= target
    else:
        reaches = with_label >= target * with_label[-1]

    # rows of equal values are predicted together
    is_last = np.append(descending[1:] < descending[:-1], True)
    positions = np.flatnonzero(reaches & is_last)
    if not len(positions):
        return None
    if rule.choose == "precision":
        position = positions[-1]
    else:
        position = positions[0]
    below = descending[position] - 1
    if position + 1 < len(descending):
        below = descending[position + 1]
    return float((descending[position] + below) / 2)
