"""The simple models that need no checkpoint: the majority, and a linear model of words and word pairs.

The linear model is TF-IDF with logistic regression, or ridge regression for numbers (scikit-learn). It trains
on the train split in seconds. Rows, characters and features are limited, so that time and memory are bounded
for any data.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.tables import LABELS, SplitReader, numpy_values
from tuneline.core.terminal import phase
from tuneline.tasks import Task

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

MAX_ROWS = 50_000
"""Rows of the train split, drawn with the seed."""
MAX_SCORES = 10_000_000
"""Rows times classes: fewer rows are used if there are many classes."""
MAX_CHARACTERS = 10_000_000
"""Characters of these rows together: fewer rows are used if they are long."""
MAX_TEXT = 2_000
"""Characters read of each text; the model reads no more than ``tokenize.max_length`` tokens either."""
MAX_FEATURES = 50_000
"""Most frequent words and word pairs."""
MAX_WEIGHTS = 2_000_000
"""Weights of the linear model: fewer features are used if there are many classes."""
ROWS_AT_A_TIME = 10_000
INVERSE_REGULARIZATION = 10.0
"""``C`` of the logistic regression.

1, scikit-learn's default, gives 0.820 on the tickets, and 0.730 on MRPC.
"""
MAX_ITERATIONS = 100
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese): each counts as a word."""
WORD = rf"(?u)[{UNSPACED}]|[^\W{UNSPACED}]+"


def read_sample(
    split: SplitReader, text_columns: Sequence[str], outputs: int, seed: int, *, max_rows: int | None = None
) -> pa.Table:
    """Read rows of a raw split, drawn with the seed, within the limits above; in batches, so that a large one needs no more memory.

    Return the text columns, cut off after ``MAX_TEXT`` characters, and the labels, in the order of the split.
    A missing text is empty.
    """
    total, generator = split.rows, np.random.default_rng(seed)
    drawn = np.sort(
        generator.choice(total, min(total, max_rows or MAX_ROWS, MAX_SCORES // outputs), replace=False)
    )
    columns = [*text_columns, LABELS]
    parts, start = [], 0
    for batch in split.batches(columns):
        inside = drawn[np.searchsorted(drawn, start) : np.searchsorted(drawn, start + len(batch))] - start
        taken = batch.take(pa.array(inside))
        texts = [pc.utf8_slice_codeunits(pc.fill_null(taken[name], ""), 0, MAX_TEXT) for name in text_columns]
        parts.append(pa.record_batch([*texts, taken[LABELS]], columns))
        start += len(batch)
    rows = pa.Table.from_batches(parts)
    lengths = sum(pc.utf8_length(rows[name]).to_numpy() for name in text_columns)
    order = generator.permutation(len(rows))
    kept = order[np.cumsum(lengths[order]) <= MAX_CHARACTERS]
    return rows.take(np.sort(kept))


def predict_with_tfidf(train: pa.Table, texts: Sequence[Sequence[str]], labels: Task) -> NDArray[Any]:
    """Train the baseline on rows as ``read_sample`` returns them, and predict texts, one list for each column.

    Return class ids or numbers, shape ``(rows,)``: always the same one if the train rows have one label, or
    no word in common.
    """
    model = TfidfModel.fit(train, labels)
    starts = range(0, max(len(texts[0]), 1), ROWS_AT_A_TIME)
    return np.concatenate(
        [model.predict([column[start : start + ROWS_AT_A_TIME] for column in texts]) for start in starts]
    )


@dataclass(frozen=True)
class TfidfModel:
    """The trained baseline.

    Without a ``vectorizer``, because the train rows have no word in common, or one label, ``model`` is what
    is always predicted.
    """

    vectorizer: "TfidfVectorizer | None"
    model: Any
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, train: pa.Table, labels: Task) -> Self:
        """Train the baseline on rows as ``read_sample`` returns them."""
        columns = [train[name].to_pylist() for name in train.column_names if name != LABELS]
        answers = train[LABELS].to_numpy()
        vectorizer = _fit_vectorizer([text for column in columns for text in column], labels.outputs)
        if vectorizer is None or np.ptp(answers) == 0:
            return cls(None, labels.constant_prediction([answers]), answers.dtype)
        model = labels.sparse_linear_model(INVERSE_REGULARIZATION, MAX_ITERATIONS)
        return cls(vectorizer, _fit(model, _features(vectorizer, columns), answers), answers.dtype)

    def predict(self, texts: Sequence[Sequence[str]]) -> NDArray[Any]:
        """Predict a batch of texts, one list for each column: class ids or numbers of shape ``(rows,)``."""
        if self.vectorizer is None:
            return np.full(len(texts[0]), self.model, dtype=self.dtype)
        features = _features(self.vectorizer, [[text[:MAX_TEXT] for text in column] for column in texts])
        return np.asarray(self.model.predict(features), dtype=self.dtype)


def out_of_fold(
    texts: Sequence[Sequence[str]], labels: NDArray[np.integer], outputs: int, *, folds: int, seed: int
) -> NDArray[np.float64]:
    """Return the class probabilities ``(rows, outputs)`` of each row from a model that was trained without it.

    Texts are one list for each column. Each class is divided evenly over the folds. Words and their weights
    come from the texts of all rows, whose labels they do not contain. If there is nothing to learn from (no
    word in common, or one label), the probabilities are the class frequencies of the other folds.
    """
    from sklearn.linear_model import LogisticRegression

    columns = [[text[:MAX_TEXT] for text in column] for column in texts]
    vectorizer = _fit_vectorizer([text for column in columns for text in column], outputs)
    features = None if vectorizer is None else _features(vectorizer, columns)
    fold = stratified_folds(labels, folds, seed)
    probabilities = np.zeros((len(labels), outputs))
    for number in range(folds):
        phase(f"fold {number + 1} of {folds}")
        held_out = fold == number
        known = labels[~held_out]
        if features is None or not len(known) or np.ptp(known) == 0:
            probabilities[held_out] = np.bincount(known, minlength=outputs) / max(len(known), 1)
        elif held_out.any():
            model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=MAX_ITERATIONS)
            _fit(model, features[~held_out], known)
            probabilities[np.ix_(held_out, model.classes_)] = model.predict_proba(features[held_out])
    return probabilities


def stratified_folds(labels: NDArray[np.integer], folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, drawn with the seed: each class is divided evenly, and so are all rows."""
    order = np.lexsort((np.random.default_rng(seed).permutation(len(labels)), labels))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold


def _fit(model: Any, features: Any, answers: NDArray[Any]) -> Any:
    """Fit a linear model of scikit-learn, which need not converge."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.fit(features, answers)


def _fit_vectorizer(texts: Sequence[str], outputs: int) -> "TfidfVectorizer | None":
    """Return the words and word pairs that at least two texts have; ``None`` if there are none."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    features = min(MAX_FEATURES, MAX_WEIGHTS // outputs)
    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2), token_pattern=WORD, sublinear_tf=True, min_df=2, max_features=features
    )
    try:
        return vectorizer.fit(texts)
    except (
        ValueError
    ):  # "empty vocabulary", "no terms remain" and "min_df": scikit-learn has no type for them
        return None


def _features(vectorizer: "TfidfVectorizer", columns: Sequence[Sequence[str]]) -> Any:
    """Return a sparse matrix of shape ``(rows, features)``.

    Features of a pair of texts are the product and the absolute difference of their vectors: what they share,
    and where they differ. On MRPC this gives an accuracy of 0.760, and one vector of both texts 0.706; on the
    generated tickets both give 0.874.
    """
    from scipy import sparse

    first, *others = [vectorizer.transform(column) for column in columns]
    return (
        sparse.hstack(
            [part for other in others for part in (first.multiply(other), abs(first - other))], "csr"
        )
        if others
        else first
    )


Predict = Callable[[Sequence[Sequence[str]]], dict[str, NDArray[Any]]]
"""From a batch of texts, one list for each column, to the predictions of one or more models by name."""


def majority_model(train: SplitReader, labels: Task) -> Predict:
    """Return the model that always predicts the most frequent class of the train split, or the mean of its numbers."""
    batches = (numpy_values(batch[LABELS]) for batch in train.batches([LABELS]))
    constant = labels.constant_prediction(batches)
    return lambda texts: {"majority": np.full(len(texts[0]), constant)}


def tfidf_model(train: SplitReader, columns: Sequence[str], labels: Task, seed: int) -> Predict:
    """Return the linear model of words and word pairs."""
    phase("TF-IDF")
    model = TfidfModel.fit(read_sample(train, columns, labels.outputs, seed), labels)
    return lambda texts: {"tfidf": model.predict(texts)}
