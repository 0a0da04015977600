"""What the texts of the splits say about their labels: measurements and notes of three checks.

``learnable_labels`` looks for labels that have nothing to do with the texts: naive Bayes on words is fitted
on train, and each row is predicted by a model that was fitted without it. ``revealing_words`` and
``revealing_length`` look for labels that can be told without reading: by one word, or a length. Words are
read of a sample of bounded size; lengths of all rows.
"""

import warnings
from collections.abc import Mapping, Sequence
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
"""Rows of each split whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes."""
MAX_FEATURES = 50_000
"""Words and word pairs that are looked at, the most frequent ones."""
MIN_ROWS_PER_CLASS = 300
"""Rows of train, on average, from which a disagreement is a statement on the labels.

A model of fewer rows is often wrong itself.
"""
FOLDS = 5
SUREST = 0.2
"""Fraction of the rows whose labels are compared with what the model is surest of."""
WORD = rf"(?u)[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]"
"""Punctuation and symbols are words, too: a template may consist of them."""
BINS = 20
"""Bins that lengths are divided into, with as many rows each."""
MIN_ROWS = 5
"""Fewer rows give no label away."""
PRECISION = 0.85
"""Part of the gap between a label's share of the rows and 1 that a revealing word closes."""
SHOWN = 5
"""Words in a note."""


@dataclass(frozen=True)
class LabelFindings:
    """Measurements of one split by column, some of them in words, and notes by key of the check."""

    columns: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


def examine_labels(
    raw: Mapping[str, RawSplit], text_columns: Sequence[str], task: Task
) -> dict[str, LabelFindings]:
    """Examine the labels of the raw splits, and return the findings of each split with two labels or more."""
    if "train" not in raw:
        return {}
    names, edges = bins(task, raw["train"].labels)
    if len(names) < 2:
        return {}

    # a sample of each split with two labels or more
    texts: list[list[str]] = [[] for _ in text_columns]
    members: dict[str, LabelMembers] = {}
    for split, current in raw.items():
        sample = read_sample(
            current.source, text_columns, len(names), SEED, max_rows=min(MAX_ROWS, MAX_SCORES // len(names))
        )
        labels = labels_of(task, sample[LABELS])
        valid = task.valid(labels)
        of_split = members_of(labels[valid], task, edges, len(names))
        if np.count_nonzero(of_split.any(axis=0)) + (~of_split.any(axis=1)).any() > 1:
            members[split] = of_split
            for column, name in zip(texts, text_columns, strict=True):
                column.extend(sample[name].filter(valid).to_pylist())
    if "train" not in members:
        return {}

    # words, and what they say
    splits = np.repeat(list(members), list(map(len, members.values())))
    features = word_features(texts)
    if features is None:
        return {}
    words, occurrences, shared = features
    labels_of_rows = np.concatenate(list(members.values()))
    learnt = _learnability(
        _stacked(occurrences, shared), labels_of_rows, splits, task.one_class or not task.has_classes
    )
    findings = {}
    for split, of_split in members.items():
        found = learnt[split]
        revealing = revealing_features(words, occurrences[splits == split], of_split, names)
        _add(found, "revealing_words", revealing)
        _add(found, "revealing_length", _revealing_lengths(raw[split], task, edges, names))
        findings[split] = found
    return findings


def members_of(labels: Labels, task: Task, edges: Sequence[float], classes: int) -> LabelMembers:
    """Return which of some valid labels rows have; numbers are in bins between ``edges``."""
    if task.label_shape:
        return np.asarray(labels == 1)
    ids = np.searchsorted(np.array(edges), labels, side="left")
    return np.asarray(ids[:, None] == np.arange(classes))


def word_features(columns: Sequence[Sequence[str]]) -> tuple[list[str], Any, Any] | None:
    """Find the words and word pairs of rows, whose texts are one list for each column.

    A word with digits counts as the word with ``0`` for each number: ``INC48213`` and ``INC48214`` are one.

    Returns:
        The words; which rows have them, and which rows have them in more than one text, as sparse matrices of
        shape ``(rows, words)``; ``None`` without a frequent word.
    """
    import re

    from sklearn.feature_extraction.text import CountVectorizer

    digits = re.compile(r"\d+")
    vectorizer = CountVectorizer(
        preprocessor=lambda text: digits.sub("0", text.lower()),
        token_pattern=WORD,
        ngram_range=(1, 2),
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


def _stacked(occurrences: Any, shared: Any) -> Any:
    """Return features of a model: a word in both texts of a row counts as another one."""
    from scipy.sparse import hstack

    return hstack([occurrences - shared, shared], "csr")


def _learnability(
    features: Any, members: LabelMembers, splits: NDArray[np.str_], one_class: bool
) -> dict[str, LabelFindings]:
    """Return the measurements about the model of the train split, by split."""
    is_train = splits == "train"
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of classes that a fold lacks
        if one_class:
            margins = _margins(features, members.argmax(axis=1), is_train, members.shape[1])
        else:
            columns = [
                _margins(features, has_label.astype(int), is_train, 2)[:, 1] for has_label in members.T
            ]
            margins = np.stack(columns, axis=1)

    is_small = is_train.sum() < MIN_ROWS_PER_CLASS * members.shape[1]
    findings = {}
    for split in dict.fromkeys(splits.tolist()):
        inside = splits == split
        auc, error = area_under_curve(margins[inside], members[inside])
        low = max(auc - 1.96 * error, 0.0)
        high = min(auc + 1.96 * error, 1.0)
        area = f"area under the ROC curve {auc:.3f} (95 % interval {low:.3f} to {high:.3f})"
        found = LabelFindings({"learnable_labels": auc, "auc_high": high}, {"auc_high": area})
        findings[split] = found
        if split == "train":
            train_low = low
        else:
            drop = max(train_low - high, 0.0)
            found.columns["auc_drop"] = drop
            found.words["auc_drop"] = f"{area}, at least {drop:.3f} below train"
        if not is_small:
            share, low, high = _disagreement(margins[inside], members[inside])
            found.columns["disagreement_low"] = low
            found.words["disagreement_low"] = (
                f"{percent(share)} of the surest rows have another label (95 % interval {percent(low)} to"
                f" {percent(high)})"
            )
    return findings


def _margins(features: Any, labels: NDArray[np.int64], is_train: LabelMembers, classes: int) -> Floats:
    """Return the log-odds of each class against the most probable other one, shape ``(rows, classes)``.

    They are of naive Bayes, fitted on train; rows of train are predicted by models of its other folds.
    """
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.naive_bayes import MultinomialNB

    scores = np.full((len(labels), classes), np.finfo(np.float64).min)
    train = features[is_train]
    present = np.unique(labels[is_train])
    folds = KFold(min(FOLDS, train.shape[0]), shuffle=True, random_state=SEED)
    scores[np.ix_(is_train, present)] = cross_val_predict(
        MultinomialNB(), train, labels[is_train], cv=folds, method="predict_log_proba"
    )
    if not is_train.all():
        model = MultinomialNB().fit(train, labels[is_train])
        scores[np.ix_(~is_train, present)] = model.predict_log_proba(features[~is_train])
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


def _disagreement(scores: Floats, members: LabelMembers) -> tuple[float, float, float]:
    """Return the fraction of the surest rows that have another label, and its 95 % interval."""
    labelled = int(members.any(axis=1).sum())  # of a row without a label, it cannot be sure of any
    surest = np.argsort(-scores.max(axis=1), kind="stable")[: max(1, int(SUREST * labelled))]
    wrong = int(np.count_nonzero(~members[surest, scores[surest].argmax(axis=1)]))
    low, high = wilson_interval(wrong, len(surest))
    return wrong / len(surest), low, high


Revealing = list[tuple[float, str]]
"""What gives a label away: the fraction of the rows with the label that have it, and a sentence."""


def revealing_features(
    words: Sequence[str], occurrences: Any, members: LabelMembers, names: Sequence[str]
) -> Revealing:
    """Return words and word pairs that give a label away, the one of the largest coverage first.

    Many rows with the label have it, and hardly another row: the lower end of the interval of its precision
    closes ``PRECISION`` of the gap between the label's share of the rows and 1. This needs so many rows that
    by chance less than one in 10^11 words meets it: their number needs no correction.
    """
    counts = np.asarray(occurrences.T @ members.astype(np.int64))
    total = np.asarray(occurrences.sum(axis=0)).ravel()
    least = _least(members)
    candidates = np.nonzero((counts >= least * total[:, None]) & (counts >= MIN_ROWS))
    found = [
        _revealing(
            f"“{words[word]}”", (int(counts[word, label]), int(total[word])), members, label, names[label]
        )
        for word, label in zip(*candidates, strict=True)
    ]
    return sorted(filter(None, found), key=lambda revealing: -revealing[0])


def _least(members: LabelMembers) -> Floats:
    """Return the least lower end of the precision for each label, shape ``(labels,)``."""
    share = members.mean(axis=0)
    return np.asarray(share + PRECISION * (1 - share))


def _revealing(
    name: str, counts: tuple[int, int], members: LabelMembers, label: int, title: str
) -> tuple[float, str] | None:
    """Return what some rows have if it gives a label away, which the first of the two ``counts`` have."""
    own, rows = counts
    interval = wilson_interval(own, rows)
    if interval.low < _least(members)[label]:
        return None
    coverage = own / int(members[:, label].sum())
    return coverage, (
        f"{name}: {percent(coverage)} of {title} have it, and of the {rows:,} rows that have it,"
        f" {percent(own / rows)} are {title} (95 % interval {percent(interval.low)} to"
        f" {percent(interval.high)})."
    )


def _revealing_lengths(
    split: RawSplit, task: Task, edges: Sequence[float], names: Sequence[str]
) -> Revealing:
    """Return labels that the length of a row gives away.

    Lengths are divided into bins. What gives a label away are all bins that hold hardly another label.
    """
    labels = split.labels
    valid = task.valid(labels)
    members = members_of(labels[valid], task, edges, len(names))
    lengths = split.columns.column("characters")[valid]
    ends = np.unique(np.quantile(lengths, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    bin_of_row = np.searchsorted(ends, lengths, side="left")
    total = np.bincount(bin_of_row, minlength=len(ends) + 1)
    found = []
    for label, least in enumerate(_least(members)):
        counts = np.bincount(bin_of_row[members[:, label]], minlength=len(total))
        chosen = (total > 0) & (counts >= least * total)
        if chosen.any():
            inside = lengths[chosen[bin_of_row]]
            name = f"number of characters from {inside.min():,} to {inside.max():,}"
            inside_counts = (int(counts[chosen].sum()), int(total[chosen].sum()))
            found.append(_revealing(name, inside_counts, members, label, names[label]))
    return sorted(filter(None, found), key=lambda revealing: -revealing[0])


def _add(found: LabelFindings, check: str, revealing: Revealing) -> None:
    """Add what gives a label away to the findings of a split."""
    found.columns[check] = max((coverage for coverage, _ in revealing), default=0.0)
    found.words[check] = percent(found.columns[check])
    if revealing:
        found.notes[check] = [sentence for _, sentence in revealing[:SHOWN]]
