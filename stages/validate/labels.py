"""What the texts of the splits say about their labels: measurements and notes of three checks.

``learnable_labels`` looks for labels that have nothing to do with the texts: naive Bayes on words is fitted
on train, and each row is predicted by a model that was fitted without it. ``revealing_words`` and
``revealing_length`` look for labels that can be told without reading: by one word, a length, a number. Words
are read of a sample of bounded size; lengths and positions of all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.raw import RawSplit
from tuneline.analysis.baselines import UNSPACED, read_sample, stratified_folds
from tuneline.analysis.drift import Numbers
from tuneline.analysis.text import BOUNDARY, normalized
from tuneline.core.tables import LABELS, UNLABELLED, SplitReader
from tuneline.metrics.stats import Interval, wilson_interval
from tuneline.params import ValidateParams
from tuneline.params.validate import Revealing
from tuneline.tasks import Task

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SEED = 0
MAX_ROWS = 20_000
"""Rows of each split whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes. Features times classes: likewise."""
MAX_FEATURES = 50_000
MIN_ROWS_PER_CLASS = 300
"""Rows of train, on average, from which a disagreement is a statement on the labels: a model of fewer rows is often wrong itself."""
FOLDS = 5
SUREST = 0.2
"""Fraction of the rows whose labels are compared with what the model is surest of."""
SHOWN = 5
"""Words in a note."""


@dataclass(frozen=True)
class LabelFindings:
    """Measurements of one split by name, of which the one with the name of a check is its metric, and notes by key of the check."""

    columns: dict[str, float] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelBins:
    """Class ids of labels, also of a regression: whether a number is above the median of train.

    ``names`` and ``edges`` are as in ``Task.bins``.
    """

    task: Task
    names: tuple[str, ...]
    edges: tuple[float, ...]

    @classmethod
    def of(cls, task: Task, train: NDArray[Any]) -> Self:
        """Prepare for the labels of a data set, given those of train."""
        return cls(task, *task.bins(train))

    def ids(self, labels: NDArray[Any]) -> Ids:
        """Return the class id of each label, -1 for a label that is invalid or missing."""
        ids = np.searchsorted(self.edges, labels, side="left")
        return np.where(self.task.valid(labels), ids, UNLABELLED).astype(np.int64)


def examine_labels(
    raw: Mapping[str, RawSplit], text_columns: list[str], schema: Task, params: ValidateParams
) -> dict[str, LabelFindings]:
    """Examine the labels of the raw splits, and return the findings of each split with two labels or more."""
    classes = LabelBins.of(schema, raw["train"].labels) if "train" in raw else None
    if classes is None or len(classes.names) < 2:
        return {}
    samples = {
        name: _sample(split.source, text_columns, classes) for name, split in raw.items() if split.rows
    }
    samples = {name: sample for name, sample in samples.items() if len(np.unique(sample[1])) > 1}
    if not samples:
        return {}
    labels, number = np.concatenate([sample[1] for sample in samples.values()]), len(classes.names)
    texts = [
        pa.concat_arrays(columns) for columns in zip(*(sample[0] for sample in samples.values()), strict=True)
    ]
    features = word_features(texts, min(MAX_FEATURES, MAX_SCORES // number))
    splits = np.repeat(list(samples), [len(sample[1]) for sample in samples.values()])
    learnt = _learnability(features, labels, splits, number)
    findings = {}
    for name, sample in samples.items():
        words = revealing_words(features, splits == name, labels, number, params.revealing_words.precision)
        lengths, notes = _revealing_lengths(raw[name], *sample, classes, params.revealing_length)
        columns = {
            "revealing_words": _coverage(words),
            "revealing_length": _coverage(lengths),
            **learnt.get(name, {}),
        }
        findings[name] = LabelFindings(
            columns, {"revealing_words": _sentences(words, classes), "revealing_length": notes}
        )
    return findings


def _sample(split: SplitReader, text_columns: list[str], classes: LabelBins) -> tuple[list[pa.Array], Ids]:
    """Return texts, one array for each column, and class ids of rows of a split with a valid label."""
    number = len(classes.names)
    table = read_sample(split, text_columns, number, SEED, max_rows=min(MAX_ROWS, MAX_SCORES // number))
    ids = classes.ids(pc.fill_null(table[LABELS], UNLABELLED).to_numpy())
    table = table.filter(pa.array(ids != UNLABELLED))
    return [table[name].combine_chunks() for name in text_columns], ids[ids != UNLABELLED]


SEPARATE = rf"([{UNSPACED}]|[^\p{{L}}\p{{N}}\s{UNSPACED}]+)"
"""Punctuation and symbols are words, and so is each character of a script without spaces: a template may consist of them."""
DIGITS = r"\p{Nd}+"
"""A word with digits also counts as the word with ``0`` for each number: ``INC48213`` and ``INC48214`` have ``inc0`` in common."""
MAX_NAME = 60
"""Characters of a word that is shown."""


@dataclass(frozen=True)
class WordFeatures:
    """Which row has which word or word pair, in at least two rows.

    Attributes:
        rows: Row of each entry, ascending, of shape ``(entries,)``. A row has a feature at most once.
        ids: Feature of each entry, of shape ``(entries,)``.
        repeated: True if more than one text of the row has the feature, of shape ``(entries,)``.
        pairs: Positions in ``words`` of the first and the second word of each feature, shape ``(features,
            2)``; -1 for no second word.
    """

    rows: Ids
    ids: Ids
    repeated: NDArray[np.bool_]
    words: pa.StringArray
    pairs: Ids

    def __len__(self) -> int:
        """Return the number of features."""
        return len(self.pairs)

    def name(self, feature: int) -> str:
        """Return the feature as a person reads it, for example ``“order 0” at the start``."""
        pair = [self.words[int(position)].as_py() for position in self.pairs[feature] if position >= 0]
        place = " at the start" if pair[0] == BOUNDARY else " at the end" if pair[-1] == BOUNDARY else ""
        text = " ".join(word for word in pair if word != BOUNDARY)
        return f"“{text if len(text) <= MAX_NAME else text[:MAX_NAME] + '…'}”{place}"


def word_features(columns: Sequence[pa.Array], limit: int) -> WordFeatures:
    """Find the features of rows, at most ``limit``, the most frequent ones.

    The texts are one array for each column.
    """
    total, lists = len(columns[0]), [_tokens(column) for column in columns]
    words, dictionary = _encode(pa.concat_arrays([tokens.flatten() for tokens in lists]))
    shapes, dictionary = _encode(
        pa.concat_arrays([dictionary, pc.replace_substring_regex(dictionary, DIGITS, "0")])
    )
    shapes = shapes[len(shapes) // 2 :][words]
    text = np.repeat(
        np.arange(total * len(lists)),
        np.concatenate([np.diff(tokens.offsets.to_numpy()) for tokens in lists]),
    )
    is_word = np.asarray(pc.not_equal(dictionary, BOUNDARY))[words]
    # A feature is its first word and its second, or 0 for none; two boundaries, of an empty text, are no
    # feature.
    within, has_shape, base = (
        (text[1:] == text[:-1]) & (is_word[1:] | is_word[:-1]),
        shapes != words,
        len(dictionary) + 1,
    )
    features = np.concatenate(
        [words[is_word] * base, shapes[has_shape] * base, (words[:-1] * base + words[1:] + 1)[within]]
    )
    texts = np.concatenate([text[is_word], text[has_shape], text[1:][within]])
    ids, values = pd.factorize(features)
    # Each feature once per text, then once per row. np.unique without counts uses hashes, which are slower
    # than sorting.
    of_texts, _ = np.unique(texts * len(values) + ids, return_counts=True)
    entries, counts = np.unique(of_texts % max(total * len(values), 1), return_counts=True)
    rows, ids = np.divmod(entries, max(len(values), 1))
    frequency = np.bincount(ids, minlength=len(values))
    kept = np.argsort(-frequency, kind="stable")[:limit]
    kept = kept[frequency[kept] > 1]
    number = np.full(len(values), -1)
    number[kept] = np.arange(len(kept))
    inside = number[ids] >= 0
    pairs = np.stack([values[kept] // base, values[kept] % base - 1], axis=1)
    return WordFeatures(rows[inside], number[ids[inside]], counts[inside] > 1, dictionary, pairs)


def _encode(words: pa.StringArray) -> tuple[Ids, pa.StringArray]:
    encoded = words.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _tokens(texts: pa.StringArray) -> pa.ListArray:
    """Split texts into words, with ``BOUNDARY`` before and after each text."""
    spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(normalized(texts), SEPARATE, r" \1 "))
    boundary = pa.scalar(BOUNDARY)
    return pc.split_pattern_regex(pc.binary_join_element_wise(boundary, spaced, boundary, " "), r"\s+")


def _learnability(
    features: WordFeatures, labels: Ids, splits: NDArray[np.str_], classes: int
) -> dict[str, dict[str, float]]:
    """Return the columns about the model of the train split, by split.

    Rows of train are predicted by models of its other folds.
    """
    is_train = splits == "train"
    if not is_train.any():
        return {}
    fold = np.full(len(labels), -1)
    fold[is_train] = stratified_folds(labels[is_train], FOLDS, SEED)
    odds = log_odds(features, labels, fold, classes)
    columns = {
        str(split): learnability(odds[splits == split], labels[splits == split])
        for split in np.unique(splits)
    }
    for split, found in columns.items():
        if split != "train":
            found["auc_drop"] = max(columns["train"]["auc_low"] - found["auc_high"], 0.0)
        if is_train.sum() < MIN_ROWS_PER_CLASS * classes:
            columns[split] = {
                name: value for name, value in found.items() if not name.startswith("disagreement")
            }
    return columns


def log_odds(features: WordFeatures, labels: Ids, fold: Ids, classes: int) -> Floats:
    """Return the log-odds of each class against the others, of shape ``(rows, classes)``, from a model that was fitted without the row.

    Class ids and folds have the shape ``(rows,)``; the fold of a row that no model is fitted on is -1.
    """
    ids = features.ids + len(features) * features.repeated
    fold_of_entry, size = fold[features.rows], 2 * len(features)
    counts = np.zeros((FOLDS, size, classes))
    for number in range(FOLDS):
        inside = fold_of_entry == number
        cells = ids[inside] * classes + labels[features.rows[inside]]
        counts[number] = np.bincount(cells, minlength=size * classes).reshape(size, classes)
    scores = np.zeros((len(labels), classes))
    for number in range(-1, FOLDS):
        inside, known = fold_of_entry == number, fold[fold >= 0] != number
        fitted = counts.sum(axis=0) - (counts[number] if number >= 0 else 0)
        weights = np.log((fitted + 1) / (fitted + 1).sum(axis=0))
        weights[fitted.sum(axis=1) == 0] = 0
        priors = np.log(np.bincount(labels[fold >= 0][known], minlength=classes) + 1.0)
        for label in range(classes):
            sums = np.bincount(features.rows[inside], weights[ids[inside], label], minlength=len(labels))
            scores[:, label] += np.where(fold == number, sums + priors[label], 0.0)
    odds = np.empty_like(scores)
    for label in range(classes):
        others = np.delete(scores, label, axis=1)
        largest = others.max(axis=1)
        odds[:, label] = scores[:, label] - largest - np.log(np.exp(others - largest[:, None]).sum(axis=1))
    return odds


def learnability(odds: Floats, labels: Ids) -> dict[str, float]:
    """Compare the log-odds, of shape ``(rows, classes)``, of the rows of one split with their labels, of two classes or more.

    ``learnable_labels`` is the area under the ROC curve, and ``disagreement`` the fraction of the surest rows
    with another label; the ends of their 95 % intervals are ``auc_low``, ``auc_high``, ``disagreement_low``
    and ``disagreement_high``.
    """
    auc, error = area_under_curve(odds, labels)
    surest = np.argsort(-odds.max(axis=1), kind="stable")[: max(1, int(SUREST * len(labels)))]
    wrong = int(np.count_nonzero(odds[surest].argmax(axis=1) != labels[surest]))
    low, high = wilson_interval(wrong, len(surest))
    ends = {"auc_low": max(auc - 1.96 * error, 0.0), "auc_high": min(auc + 1.96 * error, 1.0)}
    return {
        "learnable_labels": auc,
        **ends,
        "disagreement": wrong / len(surest),
        "disagreement_low": low,
        "disagreement_high": high,
    }


def area_under_curve(scores: Floats, labels: Ids) -> tuple[float, float]:
    """Return the area under the ROC curve of each class against the others, weighted by the rows of the class, and its standard error.

    The error is that of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), of the weighted sum: each
    row adds its mean rank among the rows of the other side.
    """
    total, area, influence = len(labels), 0.0, np.zeros(len(labels))
    for label, own in enumerate(np.bincount(labels, minlength=scores.shape[1])):
        is_own, others = labels == label, total - own
        if own and others:
            ranks = _ranks(scores[:, label])
            placed = np.empty(total)
            placed[is_own] = (ranks[is_own] - _ranks(scores[is_own, label])) / others
            placed[~is_own] = 1 - (ranks[~is_own] - _ranks(scores[~is_own, label])) / own
            part = float(placed[is_own].mean())
            area += part * own / total
            influence += (placed - part) * np.where(is_own, 1.0, own / others)
    return area, float(influence.std() / np.sqrt(total))


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1; equal values have their mean rank.

    ``scipy.stats`` takes long to import.
    """
    return np.asarray(pd.Series(values).rank(), np.float64)


BINS = 20
"""Bins that numbers are divided into, with as many rows each."""
NUMBER = r"(?P<number>[0-9][0-9.,:/T-]*)"
"""A number, date or time. Its digits, read as one number, have the order of ISO dates."""
MAX_DIGITS = 15
MIN_ROWS = 5
"""Fewer rows are never enough, and most words have fewer."""


@dataclass(frozen=True)
class Giveaway:
    """Something that many rows with a label have, and hardly another row.

    ``precision`` is the fraction of these rows that have the label, ``coverage`` that of the rows with the
    label that have it.
    """

    name: str
    label: int
    rows: int
    precision: float
    interval: Interval
    coverage: float

    def sentence(self, names: Sequence[str]) -> str:
        """Describe it for the report, with the names of the labels."""
        low, high = (f"{100 * end:.3g}" for end in self.interval)
        return (
            f"{self.name}: {100 * self.coverage:.3g} % of {names[self.label]} have it, and of the"
            f" {self.rows:,} rows that have it, {100 * self.precision:.3g} % are {names[self.label]} (95 %"
            f" interval {low} to {high} %)."
        )


@dataclass(frozen=True)
class Criterion:
    """When something gives a label away.

    The lower end of the interval of its precision must close a fraction, ``precision``, of the gap between
    the label's share of the rows and 1. This needs so many rows that by chance less than one in 10^11 words
    meets it: their number needs no correction.
    """

    rows: Ids
    precision: float

    @property
    def least(self) -> NDArray[np.float64]:
        """Least lower end for each label, of shape ``(classes,)``."""
        share: NDArray[np.float64] = self.rows / self.rows.sum()
        return share + self.precision * (1 - share)

    def apply(self, name: str, label: int, own: int, rows: int) -> Giveaway | None:
        """Return what ``rows`` rows have, of which ``own`` have the label, if it gives the label away."""
        interval = wilson_interval(own, rows)
        return (
            Giveaway(name, label, rows, own / rows, interval, own / int(self.rows[label]))
            if interval.low >= self.least[label]
            else None
        )


def revealing_words(
    features: WordFeatures, rows: NDArray[np.bool_], labels: Ids, classes: int, precision: float
) -> list[Giveaway]:
    """Return words and word pairs that give a label away in some rows of all, a mask; that of the largest coverage first."""
    inside = rows[features.rows]
    ids = features.ids[inside] * classes + labels[features.rows[inside]]
    counts = np.bincount(ids, minlength=len(features) * classes).reshape(-1, classes)
    total, criterion = counts.sum(axis=1), Criterion(np.bincount(labels[rows], minlength=classes), precision)
    candidates = np.nonzero((counts >= criterion.least * total[:, None]) & (counts >= MIN_ROWS))
    giveaways = [
        criterion.apply(features.name(word), int(label), int(counts[word, label]), int(total[word]))
        for word, label in zip(*candidates, strict=True)
    ]
    return sorted(filter(None, giveaways), key=lambda giveaway: -giveaway.coverage)


def revealing_numbers(
    name: str, values: Numbers, labels: Ids, classes: int, precision: float
) -> list[Giveaway]:
    """Find labels that a number gives away, such as the length of the row: by all its bins that hold hardly another label. NaN is none."""
    known = ~np.isnan(values)
    if not known.any():
        return []
    criterion = Criterion(np.bincount(labels, minlength=classes), precision)
    if not known.all():  # else no copies of ten million numbers
        values, labels = values[known], labels[known]
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    bins = np.searchsorted(edges, values, side="left")
    counts = np.bincount(bins * classes + labels, minlength=(len(edges) + 1) * classes).reshape(-1, classes)
    total, found = counts.sum(axis=1), []
    for label, least in enumerate(criterion.least):
        chosen = (total > 0) & (counts[:, label] >= least * total)
        if chosen.any():
            inside = values[chosen[bins]]
            title = f"{name} from {inside.min():.15g} to {inside.max():.15g}"
            found.append(
                criterion.apply(title, label, int(counts[chosen, label].sum()), int(total[chosen].sum()))
            )
    return sorted(filter(None, found), key=lambda giveaway: -giveaway.coverage)


def first_numbers(columns: Sequence[pa.Array]) -> NDArray[np.float64]:
    """Return the first number, date or time in the texts of each row, NaN for none; shape ``(rows,)``."""
    texts = pc.binary_join_element_wise(*columns, " ")
    digits = pc.replace_substring_regex(
        pc.struct_field(pc.extract_regex(texts, NUMBER), "number"), r"[^0-9]", ""
    )
    numbers: NDArray[np.float64] = (
        pc.utf8_slice_codeunits(digits, 0, MAX_DIGITS).cast(pa.float64()).to_numpy(zero_copy_only=False)
    )
    return numbers


def _revealing_lengths(
    split: RawSplit, texts: list[pa.Array], labels: Ids, classes: LabelBins, rule: Revealing
) -> tuple[list[Giveaway], list[str]]:
    """Return labels that a number tells, and the notes on them.

    The position of a row is in the notes only: the model does not see it.
    """
    ids, number = classes.ids(split.labels), len(classes.names)
    known = ids != UNLABELLED
    lengths = split.columns.column("characters")[known].astype(np.float64)
    giveaways = [
        *revealing_numbers("number of characters", lengths, ids[known], number, rule.precision),
        *revealing_numbers("first number in the texts", first_numbers(texts), labels, number, rule.precision),
    ]
    positions = revealing_numbers(
        "row", np.flatnonzero(known).astype(np.float64), ids[known], number, rule.precision
    )
    is_sorted = _coverage(positions) > rule.max
    return giveaways, [
        *_sentences(giveaways, classes),
        *(["The rows are sorted by label:", *_sentences(positions, classes)] if is_sorted else []),
    ]


def _coverage(giveaways: Sequence[Giveaway]) -> float:
    return max((giveaway.coverage for giveaway in giveaways), default=0.0)


def _sentences(giveaways: Sequence[Giveaway], classes: LabelBins) -> list[str]:
    return [giveaway.sentence(classes.names) for giveaway in giveaways[:SHOWN]]
