"""Which rows a person should label first, by kind of task."""

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.words.label_texts import label_text


@singledispatch
def named_scores(task: Task, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
    """Return the prediction of one row, and its probabilities by class name: none for a number."""
    raise NotImplementedError(task.kind)


@named_scores.register(Classification)
def _(task: Classification, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
    """Return the most probable class, and all probabilities."""
    named = dict(zip(task.names, scores, strict=True))
    return max(named, key=lambda name: named[name]), named


@named_scores.register(Multilabel)
def _(task: Multilabel, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
    """Return the labels, joined, and all probabilities."""
    (labels,) = task.decided_sets(np.array([scores])).tolist()
    return label_text(task, labels), dict(zip(task.names, scores, strict=True))


@named_scores.register(Regression)
def _(_task: Regression, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
    """Return the number."""
    return scores[0], {}


@singledispatch
def margin(_task: Task, probabilities: Mapping[str, float]) -> float:  # noqa: ARG001
    """Return how far the named scores of a row are from another prediction; 0 for a number."""
    return 0.0


@margin.register(Classification)
def _(_task: Classification, probabilities: Mapping[str, float]) -> float:
    """Return the difference of the two largest probabilities."""
    ascending = sorted([0.0, *probabilities.values()])
    return ascending[-1] - ascending[-2]


@margin.register(Multilabel)
def _(task: Multilabel, probabilities: Mapping[str, float]) -> float:
    """Return the smallest distance of a probability from its threshold."""
    return min(_distances(task, probabilities).values(), default=0.0)


@singledispatch
def by_doubt(_task: Task, probabilities: Mapping[str, float]) -> list[str]:
    """Return the names of scores of a row, first the ones that another prediction is about."""
    return list(probabilities)


@by_doubt.register(Classification)
def _(_task: Classification, probabilities: Mapping[str, float]) -> list[str]:
    """Return the class names by their probability."""
    return sorted(probabilities, key=lambda name: -probabilities[name])


@by_doubt.register(Multilabel)
def _(task: Multilabel, probabilities: Mapping[str, float]) -> list[str]:
    """Return the labels by the distance of their probability from their threshold."""
    distances = _distances(task, probabilities)
    return sorted(distances, key=lambda name: distances[name])


def _distances(task: Multilabel, probabilities: Mapping[str, float]) -> dict[str, float]:
    """Return how far the probability of each label is from its threshold."""
    distances = {}
    for name, cut in zip(task.names, task.cuts.tolist(), strict=True):
        distances[name] = abs(probabilities[name] - cut)
    return distances
