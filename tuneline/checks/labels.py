"""Words of train that give the label away: the measurement and the notes of the check ``revealing_words``.

It reads a sample of bounded size.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.checks.analysis.distributions import bins
from tuneline.checks.definitions import Table, percent
from tuneline.checks.raw import RawSplit
from tuneline.core.stage.tables import LABELS
from tuneline.core.stage.texts import UNSPACED, read_sample
from tuneline.judge.metrics.stats import wilson_interval
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import labels_of
from tuneline.model.tasks.task import Labels

LabelMembers = NDArray[np.bool_]
"""Which rows have which label, shape ``(rows, labels)``."""

SEED = 0
MAX_ROWS = 20_000
"""Rows whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes."""
MAX_FEATURES = 50_000
"""Words and word pairs that are looked at, the most frequent ones."""
WORD = rf"(?u)[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]"
"""Punctuation and symbols are words, too: a template may consist of them."""
MIN_ROWS = 5
"""Fewer rows give no label away."""
PRECISION = 0.85
"""Part of the gap between a label's share of the rows and 1 that a revealing word closes."""
SHOWN = 5
"""Words in a note."""


def examine_labels(table: Table, train: RawSplit, text_columns: Sequence[str], task: Task) -> None:
    """Add to the measurements of train what gives its labels away; nothing if all rows have the same one."""
    names, edges = bins(task, train.labels)
    if len(names) < 2:
        return

    # a sample of labelled rows
    max_rows = min(MAX_ROWS, MAX_SCORES // len(names))
    sample = read_sample(train.source, text_columns, len(names), SEED, max_rows=max_rows)
    labels = labels_of(task, sample[LABELS])
    valid = task.valid(labels)
    members = members_of(labels[valid], task, edges, len(names))
    if np.count_nonzero(members.any(axis=0)) + (~members.any(axis=1)).any() < 2:
        return

    # words, and what they say
    features = word_features([sample[name].filter(valid).to_pylist() for name in text_columns])
    if features is None:
        return
    words, occurrences = features
    revealing = revealing_features(words, occurrences, members, names)
    coverage = max((coverage for coverage, _ in revealing), default=0.0)
    table.add("revealing_words", coverage, percent(coverage))
    if revealing:
        table.notes["revealing_words"] = [sentence for _, sentence in revealing[:SHOWN]]


def members_of(labels: Labels, task: Task, edges: Sequence[float], classes: int) -> LabelMembers:
    """Return which of some valid labels rows have; numbers are in bins between ``edges``."""
    if task.label_shape:
        return np.asarray(labels == 1)
    ids = np.searchsorted(np.array(edges), labels, side="left")
    return np.asarray(ids[:, None] == np.arange(classes))


def word_features(columns: Sequence[Sequence[str]]) -> tuple[list[str], Any] | None:
    """Find the words and word pairs of rows, whose texts are one list for each column.

    A word with digits also counts as the word with ``0`` for each number: ``INC48213`` and ``INC48214`` are
    one word, too.

    Returns:
        The words, and which rows have them, as a sparse matrix of shape ``(rows, words)``; ``None`` without a
        frequent word.
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
    return vectorizer.get_feature_names_out().tolist(), (texts > 0).astype(np.int64)


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
