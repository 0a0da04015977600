"""The linear models of scikit-learn, and the constant ones, by kind of task."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Labels


@contextmanager
def fitting() -> Iterator[None]:
    """Fit models inside the block; they need not converge: the limit of their iterations bounds the time."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # NumPy and SciPy bring a BLAS each, with threads of its own, and L-BFGS calls both in turn: idle threads
    # of one take the cores of the other. On two cores, one thread is four times as fast (docs/benchmarks.md).
    with (
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
        threadpool_limits(1, user_api="blas"),
    ):
        yield


def repeated(prediction: Any, rows: int, dtype: np.dtype[Any] | None = None) -> Labels:
    """Return the same prediction, a label of one row, for each of so many rows."""
    value = np.asarray(prediction, dtype)
    return np.broadcast_to(value, (rows, *value.shape)).copy()


def is_constant(labels: Labels) -> bool:
    """Return True if at least one row has a label, and all rows have the same."""
    return bool((labels == labels[:1]).all())


def constant_prediction(task: Task, batches: Iterable[Labels]) -> Any:
    """Return the best prediction without a text, a label of one row: the majority baseline predicts it.

    It is the mean of numbers; else the most frequent class or set, of equally frequent ones the first in the
    order of the ids.
    """
    if not task.has_classes:
        # In 64 bits: many numbers of 32 bits would lose digits in their sum.
        total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in batches], axis=0)
        return np.float32(total / rows)
    counts: Counter[Any] = Counter()
    for batch in batches:
        labels, frequencies = np.unique(batch.reshape(len(batch), -1), axis=0, return_counts=True)
        for label, frequency in zip(labels.tolist(), frequencies.tolist(), strict=True):
            counts[tuple(label)] += frequency
    most_frequent = min(counts, key=lambda label: (-counts[label], label))
    return np.array(most_frequent, task.label_dtype).reshape(task.label_shape)


def linear_model(
    task: Task, inverse: float, iterations: int, *, sparse: bool = False, final: bool = True
) -> Any:
    """Return an unfitted linear model of scikit-learn.

    Args:
        task: The kind of task.
        inverse: Inverse of the regularization.
        iterations: Most iterations of its fit.
        sparse: True for many sparse features: a ridge regression has its usual regularization then.
        final: True for a model that predicts, False for one whose probabilities are only scored.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    from tuneline.model.linear.one_vs_rest import OneVsRest

    if task.one_class:
        return LogisticRegression(C=inverse, max_iter=iterations)
    if task.has_classes:
        return OneVsRest(inverse=inverse, iterations=iterations, has_thresholds=final)
    if sparse:
        return Ridge(solver="sparse_cg")
    return Ridge(alpha=1 / inverse)
