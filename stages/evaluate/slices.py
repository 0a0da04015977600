"""Metrics of parts of the reported split: a good mean can hide a part on which the model fails."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.files.atomic import DIGITS
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import Averaging, classification_metrics, predictions_of, regression_metrics
from tuneline.stats import LEVEL, pearson_interval, wilson_interval

ENOUGH_ROWS = 20
"""Rows from which on a slice can be called the worst: below, its score says little."""
_OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WORD = re.compile(r"\w+")
_PART = re.compile(r"\s*([\w.]+)")


@dataclass(frozen=True)
class Slice:
    """Some rows of the reported split.

    Attributes:
        by: What they have in common: ``length``, ``overlap``, ``label``, ``source``.
        name: Which of them this is, for people.
        rows: Their positions.
    """

    by: str
    name: str
    rows: NDArray[np.int64]


def length_slices(lengths: NDArray[np.int64]) -> Iterator[Slice]:
    """Four parts of about equal size, by number of tokens; fewer, where many rows have one length."""
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    bucket = np.searchsorted(edges, lengths)
    for index in np.unique(bucket):
        rows = np.flatnonzero(bucket == index)
        yield Slice("length", f"{lengths[rows].min()} to {lengths[rows].max()} tokens", rows)


def overlap_slices(pairs: Sequence[Sequence[str]]) -> Iterator[Slice]:
    """By the words that the two texts of a row share: Jaccard (1912), of their sets of words in lower case."""
    overlaps = np.array([_overlap(*pair) for pair in pairs])
    bucket = np.searchsorted(_OVERLAPS[1:-1], overlaps, side="right")
    for index, (low, high) in enumerate(itertools.pairwise(_OVERLAPS)):
        if len(rows := np.flatnonzero(bucket == index)):
            yield Slice("overlap", f"{low:.0%} to {high:.0%} of the words shared", rows)


def _overlap(first: str, second: str) -> float:
    one, other = set(_WORD.findall(first.lower())), set(_WORD.findall(second.lower()))
    return len(one & other) / max(len(one | other), 1)


def label_slices(labels: NDArray[Any], names: Sequence[str]) -> Iterator[Slice]:
    """One part for each class that some rows have. Accuracy within one is the class's recall."""
    for index, name in enumerate(names):
        if len(rows := np.flatnonzero(labels == index)):
            yield Slice("label", name, rows)


def source_slices(specification: str, places: NDArray[np.int64]) -> Iterator[Slice]:
    """One part for each split of the source that the rows were drawn from; none, where that is only one or cannot be told.

    Args:
        specification: As in ``data.splits``, for example ``train[90%:]+extra``.
        places: Row numbers in the source: they rise within one of its splits.
    """
    names = [found[1] for part in specification.split("+") if (found := _PART.match(part))]
    parts = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    starts = [0, *(np.flatnonzero(np.diff(places) <= 0) + 1).tolist(), len(places)]
    if 1 < len(parts) == len(starts) - 1:
        origin = np.repeat(parts, np.diff(starts))
        for name in dict.fromkeys(parts):
            yield Slice("source", name, np.flatnonzero(origin == name))


def score_slices(
    slices: Sequence[Slice], logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema, average: Averaging
) -> list[dict[str, Any]]:
    """Metrics of each slice, with an interval for the first of them: Wilson's for accuracy, Fisher's for Pearson's r.

    Args:
        slices: Parts of the split.
        logits: Shape ``[rows, outputs]``.
        labels: Shape ``[rows]``.
        label_schema: What they mean.
        average: How F1 is averaged.
    """
    predictions = predictions_of(logits, label_schema)
    return [_score(one, labels[one.rows], predictions[one.rows], label_schema, average) for one in slices]


def _score(one: Slice, labels: NDArray[Any], predictions: NDArray[Any], label_schema: LabelSchema, average: Averaging) -> dict[str, Any]:
    rows = len(labels)
    if label_schema.is_regression:
        scores = regression_metrics(labels, predictions) if rows > 1 else {"pearson": 0.0, "mse": float((labels - predictions)[0] ** 2)}
        low, high = pearson_interval(scores["pearson"], rows)
        figures = {"pearson": scores["pearson"], "low": low, "high": high, "mse": scores["mse"]}
    else:
        scores = classification_metrics(labels, predictions, average)
        low, high = wilson_interval(int(np.count_nonzero(labels == predictions)), rows)
        figures = {"accuracy": scores["accuracy"], "low": low, "high": high}
        if one.by != "label":  # F1 says nothing where all rows have one label
            figures["f1"] = scores["f1"]
    return {"by": one.by, "slice": one.name, "rows": rows, **{name: round(value, DIGITS) for name, value in figures.items()}}


def slices_report(scored: Sequence[dict[str, Any]], metric: str) -> dict[str, Any]:
    """What ``reports/slices.json`` says: every slice, the smallest (its interval says how little it tells), and the worst.

    Args:
        scored: What ``score_slices`` gave.
        metric: ``accuracy`` or ``pearson``: what the worst is the worst in, among slices of ``ENOUGH_ROWS`` rows.
    """
    large = [one for one in scored if one["rows"] >= ENOUGH_ROWS]
    return {
        "metric": metric,
        "level": LEVEL,
        "smallest": min(scored, key=lambda one: one["rows"], default=None),
        "worst": min(large, key=lambda one: one[metric], default=None),
        "slices": list(scored),
    }
