"""What the texts of train say about their labels: measurements and notes of two checks.

``learnable_labels`` looks for labels that have nothing to do with the texts: naive Bayes on words predicts
each row after it was fitted on other rows. ``revealing_words`` looks for words that give the label away. Both
read a sample of bounded size.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.checks import percent
from stages.validate.raw import RawSplit
from tuneline.analysis.label_bins import bins
from tuneline.analysis.sampling import UNSPACED, read_sample
from tuneline.core.arrays import Floats
from tuneline.core.tables import LABELS
from tuneline.metrics.stats import wilson_interval
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of
from tuneline.tasks.task import Labels

LabelMembers = NDArray[np.bool_]
"""Which rows have which label, shape ``(rows, labels)``."""

SEED = 0
MAX_ROWS = 20_000
"""Rows whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes."""
MAX_FEATURES = 50_000
"""Words and word pairs that are looked at, the most frequent ones."""
FOLDS = 5
WORD = rf"(?u)[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]"
"""Punctuation and symbols are words, too: a template may consist of them."""
MIN_ROWS = 5
"""Fewer rows give no label away."""
PRECISION = 0.85
"""Part of the gap between a label's share of the rows and 1 that a revealing word closes."""
SHOWN = 5
"""Words in a note."""


@dataclass(frozen=True)
class Findings:
    """Measurements of one split by column, some of them in words, and notes by key of the check."""

    columns: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


def examine_labels(train: RawSplit, text_columns: Sequence[str], task: Task) -> Findings:
    """Examine the labels of train; there are no findings if all rows have the same label."""
    found = Findings()
    names, edges = bins(task, train.labels)
    if len(names) < 2:
        return found

    # a sample of labelled rows
    max_rows = min(MAX_ROWS, MAX_SCORES // len(names))
    sample = read_sample(train.source, text_columns, len(names), SEED, max_rows=max_rows)
    labels = labels_of(task, sample[LABELS])
    valid = task.valid(labels)
    members = members_of(labels[valid], task, edges, len(names))
    if np.count_nonzero(members.any(axis=0)) + (~members.any(axis=1)).any() < 2:
        return found

    # words, and what they say
    features = word_features([sample[name].filter(valid).to_pylist() for name in text_columns])
    if features is None:
        return found
    words, occurrences, shared = features
    _add_learnability(found, occurrences, shared, members, task.one_class or not task.has_classes)
    revealing = revealing_features(words, occurrences, members, names)
    coverage = max((coverage for coverage, _ in revealing), default=0.0)
    found.columns["revealing_words"] = coverage
    found.words["revealing_words"] = percent(coverage)
    if revealing:
        found.notes["revealing_words"] = [sentence for _, sentence in revealing[:SHOWN]]
    return found


def members_of(labels: Labels, task: Task, edges: Sequence[float], classes: int) -> LabelMembers:
    """Return which of some valid labels rows have; numbers are in bins between ``edges``."""
    if task.label_shape:
        return np.asarray(labels == 1)
    ids = np.searchsorted(np.array(edges), labels, side="left")
    return np.asarray(ids[:, None] == np.arange(classes))


def word_features(columns: Sequence[Sequence[str]]) -> tuple[list[str], Any, Any] | None:
    """Find the words and word pairs of rows, whose texts are one list for each column.

    A word with digits also counts as the word with ``0`` for each number: ``INC48213`` and ``INC48214`` are
    one word, too.

    Returns:
        The words; which rows have them, and which rows have them in more than one text, as sparse matrices of
        shape ``(rows, words)``; ``None`` without a frequent word.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    words_and_pairs = CountVectorizer(token_pattern=WORD, ngram_range=(1, 2)).build_analyzer()
    digits = re.compile(r"\d+")
    vectorizer = CountVectorizer(
        analyzer=lambda text: words_and_pairs(text) + words_and_pairs(digits.sub("0", text)),
        min_df=MIN_ROWS,
        max_features=MAX_FEATURES,
        binary=True,
    )
    try:
        vectorizer.fit([" ".join(row) for row in zip(*columns, strict=True)])
    except ValueError:  # "empty vocabulary", or "no terms remain"
        return None
    texts = sum(vectorizer.transform(column) for column in columns)
    return (
        vectorizer.get_feature_names_out().tolist(),
        (texts > 0).astype(np.int64),
        (texts > 1).astype(np.int64),
    )


def _add_learnability(
    found: Findings, occurrences: Any, shared: Any, members: LabelMembers, one_class: bool
) -> None:
    """Add how well the labels are predicted by a model of words; a word in both texts is another one."""
    from scipy.sparse import hstack

    features = hstack([occurrences - shared, shared], "csr")
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of classes that a fold lacks
        if one_class:
            margins = _margins(features, members.argmax(axis=1), members.shape[1])
        else:
            columns = [_margins(features, has_label.astype(int), 2)[:, 1] for has_label in members.T]
            margins = np.stack(columns, axis=1)
    auc, error = area_under_curve(margins, members)
    low = max(auc - 1.96 * error, 0.0)
    high = min(auc + 1.96 * error, 1.0)
    found.columns["learnable_labels"] = auc
    found.columns["auc_high"] = high
    found.words["auc_high"] = f"area under the ROC curve {auc:.3f} (95 % interval {low:.3f} to {high:.3f})"


def _margins(features: Any, labels: NDArray[np.int64], classes: int) -> Floats:
    """Return the log-odds of each class against the most probable other one, shape ``(rows, classes)``.

    They are of naive Bayes, fitted to the other folds.
    """
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.naive_bayes import MultinomialNB

    scores = np.full((len(labels), classes), np.finfo(np.float64).min)
    folds = KFold(min(FOLDS, len(labels)), shuffle=True, random_state=SEED)
    scores[:, np.unique(labels)] = cross_val_predict(
        MultinomialNB(), features, labels, cv=folds, method="predict_log_proba"
    )
    others = [np.delete(scores, label, axis=1).max(axis=1) for label in range(classes)]
    return np.asarray(scores - np.stack(others, axis=1))


def area_under_curve(scores: Floats, members: LabelMembers) -> tuple[float, float]:
    """Return the area under the ROC curve of each label, weighted by its rows, and its standard error.

    The variance of an area A of m and n rows is at most A (1 - A) / min(m, n) (Birnbaum and Klose, "Bounds
    for the variance of the Mann-Whitney statistic", 1957).
    """
    from sklearn.metrics import roc_auc_score

    rows = members.sum(axis=0)
    area = 0.0
    variance = 0.0
    for label in np.flatnonzero((rows > 0) & (rows < len(members))):
        own = float(roc_auc_score(members[:, label], scores[:, label]))
        weight = rows[label] / rows.sum()
        area += weight * own
        variance += weight**2 * own * (1 - own) / min(rows[label], len(members) - rows[label])
    return area, float(np.sqrt(variance))


def revealing_features(
    words: Sequence[str], occurrences: Any, members: LabelMembers, names: Sequence[str]
) -> list[tuple[float, str]]:
    """Return the coverage of words and word pairs that give a label away, the largest first, and a sentence.

    The coverage is the fraction of the rows with the label that have the word. Many rows have it, and hardly
    another row: the lower end of the interval of its precision closes ``PRECISION`` of the gap between the
    label's share of the rows and 1. This needs so many rows that by chance less than one in 10^11 words meets
    it: their number needs no correction.
    """
    counts = np.asarray(occurrences.T @ members.astype(np.int64))
    total = np.asarray(occurrences.sum(axis=0)).ravel()
    share = members.mean(axis=0)
    least = share + PRECISION * (1 - share)
    candidates = np.nonzero((counts >= least * total[:, None]) & (counts >= MIN_ROWS))
    found = []
    for word, label in zip(*candidates, strict=True):
        own = int(counts[word, label])
        rows = int(total[word])
        interval = wilson_interval(own, rows)
        if interval.low < least[label]:
            continue
        coverage = own / int(members[:, label].sum())
        title = names[label]
        sentence = (
            f"“{words[word]}”: {percent(coverage)} of {title} have it, and of the {rows:,} rows that have it,"
            f" {percent(own / rows)} are {title} (95 % interval {percent(interval.low)} to"
            f" {percent(interval.high)})."
        )
        found.append((coverage, sentence))
    return sorted(found, key=lambda coverage_and_sentence: -coverage_and_sentence[0])
