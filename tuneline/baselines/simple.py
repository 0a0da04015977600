"""The simple models that need no checkpoint: the majority, and TF-IDF."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.analysis.tfidf import TfidfModel, read_sample
from tuneline.core.tables import LABELS, LabelSchema, SplitReader, numpy_values
from tuneline.core.terminal import phase

Predict = Callable[[Sequence[Sequence[str]]], dict[str, NDArray[Any]]]
"""From a batch of texts, one list for each column, to the predictions of one or more models by name."""


def majority_model(train: SplitReader, labels: LabelSchema) -> Predict:
    """Return the model that always predicts the most frequent class of the train split, or the mean of its numbers."""
    batches = (numpy_values(batch[LABELS]) for batch in train.batches([LABELS]))
    if labels.is_regression:
        total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in batches], axis=0)
        constant = np.float32(total / rows)
    else:
        constant = np.sum([np.bincount(batch, minlength=labels.outputs) for batch in batches], axis=0).argmax()
    return lambda texts: {"majority": np.full(len(texts[0]), constant)}


def tfidf_model(train: SplitReader, columns: Sequence[str], labels: LabelSchema, seed: int) -> Predict:
    """Return the linear model of words and word pairs."""
    phase("TF-IDF")
    model = TfidfModel.fit(read_sample(train, columns, labels.outputs, seed), labels)
    return lambda texts: {"tfidf": model.predict(texts)}
