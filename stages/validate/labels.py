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
from tuneline.analysis.drift import Numbers
from tuneline.analysis.label_bins import bins
from tuneline.analysis.sampling import UNSPACED, read_sample, stratified_folds
from tuneline.analysis.text import BOUNDARY, normalized
from tuneline.core.tables import LABELS, SplitReader
from tuneline.metrics.stats import Interval, wilson_interval
from tuneline.params import ValidateParams
from tuneline.params.validate import Revealing
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of
from tuneline.tasks.task import UNLABELLED, Labels

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SEED = 0
MAX_ROWS = 20_000
"""Rows of each split whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes. Features times classes: likewise."""
MAX_FEATURES = 50_000
"""Words and word pairs that are looked at, the most frequent ones."""
MIN_ROWS_PER_CLASS = 300
"""Rows of train, on average, from which a disagreement is a statement on the labels.

A model of fewer rows is often wrong itself.
"""
FOLDS = 5
"""Parts of train: the rows of each are predicted by a model of the others."""
SUREST = 0.2
"""Fraction of the rows whose labels are compared with what the model is surest of."""
SHOWN = 5
"""Words in a note."""


@dataclass(frozen=True)
class LabelFindings:
    """Measurements of one split by name, and notes by key of the check.

    A measurement with the name of a check is its metric.
    """

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
        """Prepare for the labels of a data set, given the labels of train."""
        return cls(task, *bins(task, train))

    def ids(self, labels: Labels) -> Ids:
        """Return the class id of each label, -1 for a label that is invalid or missing.

        Where a row can have several labels, they stay 0 and 1 for each class, shape ``(rows, classes)``.
        """
        if self.task.label_shape:
            return labels
        ids = np.searchsorted(self.edges, labels, side="left")
        return np.where(self.task.valid(labels), ids, UNLABELLED).astype(np.int64)


def members(labels: Ids, label: int | Ids) -> NDArray[np.bool_]:
    """Return which rows have a label, or each row its own one, shape ``(rows,)``.

    ``labels`` are class ids, or 0 and 1 for each class.
    """
    if labels.ndim == 1:
        return np.asarray(labels == label)
    return np.asarray(labels[np.arange(len(labels)), label] == 1)


def rows_of_labels(labels: Ids, classes: int) -> Ids:
    """Return the number of rows that have each label, shape ``(classes,)``."""
    if labels.ndim == 1:
        return np.bincount(labels, minlength=classes)
    return np.asarray(labels.sum(axis=0))


def label_counts(values: Ids, labels: Ids, rows: Ids | slice, size: int, classes: int) -> Ids:
    """Count how often each value, below ``size``, is in a row with each label, shape ``(size, classes)``.

    ``rows`` is the row of each value, as a position in ``labels``.
    """
    if labels.ndim == 1:
        cells = values * classes + labels[rows]
        return np.bincount(cells, minlength=size * classes).reshape(size, classes)
    counts = np.empty((size, classes), np.int64)
    for label in range(classes):
        counts[:, label] = np.bincount(values[members(labels, label)[rows]], minlength=size)
    return counts


def examine_labels(
    raw: Mapping[str, RawSplit], text_columns: list[str], schema: Task, params: ValidateParams
) -> dict[str, LabelFindings]:
    """Examine the labels of the raw splits, and return the findings of each split with two labels or more."""
    if "train" not in raw:
        return {}
    classes = LabelBins.of(schema, raw["train"].labels)
    number = len(classes.names)
    if number < 2:
        return {}

    # a sample of each split with two labels or more
    texts: dict[str, list[pa.Array]] = {}
    ids: dict[str, Ids] = {}
    for name, split in raw.items():
        if not split.rows:
            continue
        split_texts, split_ids = _sample(split.source, text_columns, classes)
        if len(np.unique(split_ids, axis=0)) > 1:
            texts[name] = split_texts
            ids[name] = split_ids
    if not ids:
        return {}

    # all samples together: a word has the same number in all splits
    labels = np.concatenate(list(ids.values()))
    splits = np.repeat(list(ids), list(map(len, ids.values())))
    columns_of_splits = zip(*texts.values(), strict=True)
    all_texts = [pa.concat_arrays(arrays) for arrays in columns_of_splits]
    features = word_features(all_texts, min(MAX_FEATURES, MAX_SCORES // number))

    # measurements
    learnt = _learnability(features, labels, splits, number)
    findings = {}
    for name, split_ids in ids.items():
        words = revealing_words(features, splits == name, labels, number, params.revealing_words.precision)
        lengths, notes = _revealing_lengths(
            raw[name], texts[name], split_ids, classes, params.revealing_length
        )
        columns = {"revealing_words": _coverage(words), "revealing_length": _coverage(lengths)}
        columns |= learnt.get(name, {})
        findings[name] = LabelFindings(
            columns, {"revealing_words": _sentences(words, classes), "revealing_length": notes}
        )
    return findings


def _sample(split: SplitReader, text_columns: list[str], classes: LabelBins) -> tuple[list[pa.Array], Ids]:
    """Return texts, one array for each column, and class ids of rows of a split with a valid label."""
    number = len(classes.names)
    table = read_sample(split, text_columns, number, SEED, max_rows=min(MAX_ROWS, MAX_SCORES // number))
    labels = labels_of(classes.task, table[LABELS])
    is_valid = classes.task.valid(labels)
    ids = classes.ids(labels)
    table = table.filter(pa.array(is_valid))
    return [table[name].combine_chunks() for name in text_columns], ids[is_valid]


SEPARATE = rf"([{UNSPACED}]|[^\p{{L}}\p{{N}}\s{UNSPACED}]+)"
"""Punctuation and symbols are words, and so is each character of a script without spaces.

A template may consist of them.
"""
DIGITS = r"\p{Nd}+"
"""A word with digits also counts as the word with ``0`` for each number.

``INC48213`` and ``INC48214`` have ``inc0`` in common.
"""
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
        text = " ".join(word for word in pair if word != BOUNDARY)
        if len(text) > MAX_NAME:
            text = text[:MAX_NAME] + "…"
        if pair[0] == BOUNDARY:
            return f"“{text}” at the start"
        if pair[-1] == BOUNDARY:
            return f"“{text}” at the end"
        return f"“{text}”"


def word_features(columns: Sequence[pa.Array], limit: int) -> WordFeatures:
    """Find the features of rows, at most ``limit``, the most frequent ones.

    The texts are one array for each column. Words are numbers in arrays, because there are millions of them.
    """
    # the words of all texts, one text after the other, as positions in a dictionary
    rows_in_column = len(columns[0])
    flat = []
    lengths = []
    for column in columns:
        tokens = _tokens(column)
        flat.append(tokens.flatten())
        lengths.append(np.diff(tokens.offsets.to_numpy()))
    words, dictionary = _encode(pa.concat_arrays(flat))
    text_of_word = np.repeat(np.arange(rows_in_column * len(columns)), np.concatenate(lengths))

    # the shape of each word: the word with 0 for its numbers, in the same dictionary
    shapes_of_dictionary = pc.replace_substring_regex(dictionary, DIGITS, "0")
    positions, dictionary = _encode(pa.concat_arrays([dictionary, shapes_of_dictionary]))
    shapes = positions[len(positions) // 2 :][words]

    # a feature is the number first word * base + second word + 1, or first word * base without a second one;
    # two boundaries, of an empty text, are no feature
    base = len(dictionary) + 1
    is_word = np.asarray(pc.not_equal(dictionary, BOUNDARY))[words]
    has_shape = shapes != words
    is_pair = (text_of_word[1:] == text_of_word[:-1]) & (is_word[1:] | is_word[:-1])
    pair_values = (words[:-1] * base + words[1:] + 1)[is_pair]
    features = np.concatenate([words[is_word] * base, shapes[has_shape] * base, pair_values])
    texts = np.concatenate([text_of_word[is_word], text_of_word[has_shape], text_of_word[1:][is_pair]])
    ids, values = pd.factorize(features)

    # each feature once per text, then once per row; np.unique without counts uses hashes, which are slower
    # than sorting
    of_texts, _ = np.unique(texts * len(values) + ids, return_counts=True)
    entries, counts = np.unique(of_texts % max(rows_in_column * len(values), 1), return_counts=True)
    rows, ids = np.divmod(entries, max(len(values), 1))

    # the most frequent ones get the numbers from 0
    frequency = np.bincount(ids, minlength=len(values))
    kept = np.argsort(-frequency, kind="stable")[:limit]
    kept = kept[frequency[kept] > 1]
    number = np.full(len(values), -1)
    number[kept] = np.arange(len(kept))
    inside = number[ids] >= 0
    pairs = np.stack([values[kept] // base, values[kept] % base - 1], axis=1)
    return WordFeatures(rows[inside], number[ids[inside]], counts[inside] > 1, dictionary, pairs)


def _encode(words: pa.StringArray) -> tuple[Ids, pa.StringArray]:
    """Return the position of each word in a dictionary of the different words, and this dictionary."""
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
    fold[is_train] = stratified_folds(_strata(labels[is_train]), FOLDS, SEED)
    if labels.ndim == 1:
        odds = log_odds(features, labels, fold, classes)
    else:
        odds = log_odds_of_each(features, labels, fold)

    columns: dict[str, dict[str, float]] = {}
    for split in np.unique(splits):
        inside = splits == split
        columns[str(split)] = learnability(odds[inside], labels[inside])

    is_small = is_train.sum() < MIN_ROWS_PER_CLASS * classes
    for split, measured in columns.items():
        if split != "train":
            measured["auc_drop"] = max(columns["train"]["auc_low"] - measured["auc_high"], 0.0)
        if is_small:
            for name in ("disagreement", "disagreement_low", "disagreement_high"):
                del measured[name]
    return columns


def _strata(labels: Ids) -> Ids:
    """Return the class of each row; where a row has several, the number of its set."""
    if labels.ndim == 1:
        return labels
    _, sets = np.unique(labels, axis=0, return_inverse=True)
    return sets.ravel()


def log_odds_of_each(features: WordFeatures, labels: Ids, fold: Ids) -> Floats:
    """Return the log-odds of each label that a row can have beside others, as ``log_odds`` of two classes.

    The classes are rows without the label, and rows with it. ``labels`` are 0 and 1, shape ``(rows,
    classes)``.
    """
    columns = [log_odds(features, label, fold, 2)[:, 1] for label in labels.T]
    return np.stack(columns, axis=1)


def log_odds(features: WordFeatures, labels: Ids, fold: Ids, classes: int) -> Floats:
    """Return the log-odds of each class against the others, from a model that was fitted without the row.

    Class ids and folds have the shape ``(rows,)``; the fold of a row that no model is fitted on is -1. The
    result has the shape ``(rows, classes)``. The model is naive Bayes; a feature in both texts of a row
    counts as another feature.
    """
    ids = features.ids + len(features) * features.repeated
    size = 2 * len(features)
    fold_of_entry = fold[features.rows]

    # how often each feature occurs with each class in each fold
    counts = np.zeros((FOLDS, size, classes))
    for number in range(FOLDS):
        inside = fold_of_entry == number
        cells = ids[inside] * classes + labels[features.rows[inside]]
        counts[number] = np.bincount(cells, minlength=size * classes).reshape(size, classes)

    # log-likelihood of each class: the rows of a fold by the other folds, the rows of none by all folds
    train_labels = labels[fold >= 0]
    train_folds = fold[fold >= 0]
    scores = np.zeros((len(labels), classes))
    for number in range(-1, FOLDS):
        inside = fold_of_entry == number
        fitted = counts.sum(axis=0)
        if number >= 0:
            fitted -= counts[number]
        weights = np.log((fitted + 1) / (fitted + 1).sum(axis=0))
        weights[fitted.sum(axis=1) == 0] = 0  # a feature that the model does not know
        priors = np.log(np.bincount(train_labels[train_folds != number], minlength=classes) + 1.0)
        for label in range(classes):
            sums = np.bincount(features.rows[inside], weights[ids[inside], label], minlength=len(labels))
            scores[:, label] += np.where(fold == number, sums + priors[label], 0.0)

    # against the sum of the other likelihoods, whose largest is taken out: its exponential may be 0
    odds = np.empty_like(scores)
    for label in range(classes):
        others = np.delete(scores, label, axis=1)
        largest = others.max(axis=1)
        odds[:, label] = scores[:, label] - largest - np.log(np.exp(others - largest[:, None]).sum(axis=1))
    return odds


def learnability(odds: Floats, labels: Ids) -> dict[str, float]:
    """Compare the log-odds of the rows of one split with their labels, of two classes or more.

    ``odds`` have the shape ``(rows, classes)``. ``learnable_labels`` is the area under the ROC curve, and
    ``disagreement`` the fraction of the surest rows with another label; the ends of their 95 % intervals are
    ``auc_low``, ``auc_high``, ``disagreement_low`` and ``disagreement_high``.
    """
    auc, error = area_under_curve(odds, labels)

    # a row that may have no label has nothing that the model could be sure of
    labelled = len(labels) if labels.ndim == 1 else int(labels.any(axis=1).sum())
    surest = np.argsort(-odds.max(axis=1), kind="stable")[: max(1, int(SUREST * labelled))]
    wrong = int(np.count_nonzero(~members(labels[surest], odds[surest].argmax(axis=1))))
    low, high = wilson_interval(wrong, len(surest))
    return {
        "learnable_labels": auc,
        "auc_low": max(auc - 1.96 * error, 0.0),
        "auc_high": min(auc + 1.96 * error, 1.0),
        "disagreement": wrong / len(surest),
        "disagreement_low": low,
        "disagreement_high": high,
    }


def area_under_curve(scores: Floats, labels: Ids) -> tuple[float, float]:
    """Return the area under the ROC curve of each class against the others, and its standard error.

    Classes are weighted by their rows; labels are class ids, or 0 and 1 for each class. The error is as in
    DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), for the weighted sum: each row adds its mean rank
    among the rows of the other side.
    """
    total = len(labels)
    own_rows = rows_of_labels(labels, scores.shape[1])
    weights = own_rows.sum()  # the number of rows, or of their labels
    area = 0.0
    influence = np.zeros(total)
    for label, own in enumerate(own_rows):
        others = total - own
        if not own or not others:
            continue
        is_own = members(labels, label)
        ranks = _ranks(scores[:, label])
        # fraction of the rows of the other side that are below a row of the class, or above a row of another
        placed = np.empty(total)
        placed[is_own] = (ranks[is_own] - _ranks(scores[is_own, label])) / others
        placed[~is_own] = 1 - (ranks[~is_own] - _ranks(scores[~is_own, label])) / own
        class_area = float(placed[is_own].mean())
        area += class_area * own / weights
        influence += (placed - class_area) * np.where(is_own, 1.0, own / others) * (total / weights)
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
"""Digits that are read of a number: a float64 has as many."""
MIN_ROWS = 5
"""Fewer rows are never enough, and most words have fewer."""


@dataclass(frozen=True)
class Giveaway:
    """Something that many rows with a label have, and hardly another row.

    ``precision`` is the fraction of these rows that have the label, and ``coverage`` the fraction of the rows
    with the label that have it.
    """

    name: str
    label: int
    rows: int
    precision: float
    interval: Interval
    coverage: float

    def sentence(self, names: Sequence[str]) -> str:
        """Describe it for the report, with the names of the labels."""
        label = names[self.label]
        return (
            f"{self.name}: {100 * self.coverage:.3g} % of {label} have it, and of the {self.rows:,} rows that"
            f" have it, {100 * self.precision:.3g} % are {label} (95 % interval"
            f" {100 * self.interval.low:.3g} to {100 * self.interval.high:.3g} %)."
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
    total: int

    @classmethod
    def of(cls, labels: Ids, classes: int, precision: float) -> Self:
        """Return the criterion for rows with these labels."""
        return cls(rows_of_labels(labels, classes), precision, len(labels))

    @property
    def least(self) -> NDArray[np.float64]:
        """Least lower end for each label, of shape ``(classes,)``."""
        share: NDArray[np.float64] = self.rows / self.total
        return share + self.precision * (1 - share)

    def apply(self, name: str, label: int, own: int, rows: int) -> Giveaway | None:
        """Return what ``rows`` rows have if it gives a label away; ``own`` of them have the label."""
        interval = wilson_interval(own, rows)
        if interval.low < self.least[label]:
            return None
        return Giveaway(name, label, rows, own / rows, interval, own / int(self.rows[label]))


def revealing_words(
    features: WordFeatures, rows: NDArray[np.bool_], labels: Ids, classes: int, precision: float
) -> list[Giveaway]:
    """Return words and word pairs that give a label away, the one of the largest coverage first.

    ``rows`` is a mask of the rows to look at.
    """
    # rows by word and label
    inside = rows[features.rows]
    counts = label_counts(features.ids[inside], labels, features.rows[inside], len(features), classes)
    total = np.bincount(features.ids[inside], minlength=len(features))

    # the interval is computed for few: its lower end is below the precision
    criterion = Criterion.of(labels[rows], classes, precision)
    candidates = np.nonzero((counts >= criterion.least * total[:, None]) & (counts >= MIN_ROWS))
    giveaways = []
    for word, label in zip(*candidates, strict=True):
        own = int(counts[word, label])
        giveaways.append(criterion.apply(features.name(word), int(label), own, int(total[word])))
    return _largest_first(giveaways)


def _largest_first(giveaways: Sequence[Giveaway | None]) -> list[Giveaway]:
    """Return what gives a label away, by coverage."""
    return sorted(filter(None, giveaways), key=lambda giveaway: -giveaway.coverage)


def revealing_numbers(
    name: str, values: Numbers, labels: Ids, classes: int, precision: float
) -> list[Giveaway]:
    """Find labels that a number gives away, such as the length of the row; NaN marks a missing one.

    The number is divided into bins. What gives a label away are all bins that hold hardly another label.
    """
    is_number = ~np.isnan(values)
    if not is_number.any():
        return []
    criterion = Criterion.of(labels, classes, precision)  # also of rows without a number
    if not is_number.all():  # else no copies of ten million numbers
        values = values[is_number]
        labels = labels[is_number]

    # rows by bin and label
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    bins = np.searchsorted(edges, values, side="left")
    counts = label_counts(bins, labels, slice(None), len(edges) + 1, classes)
    total = np.bincount(bins, minlength=len(edges) + 1)

    giveaways = []
    for label, least in enumerate(criterion.least):
        chosen = (total > 0) & (counts[:, label] >= least * total)
        if chosen.any():
            inside = values[chosen[bins]]
            title = f"{name} from {inside.min():.15g} to {inside.max():.15g}"
            own = int(counts[chosen, label].sum())
            giveaways.append(criterion.apply(title, label, own, int(total[chosen].sum())))
    return _largest_first(giveaways)


def first_numbers(columns: Sequence[pa.Array]) -> NDArray[np.float64]:
    """Return the first number, date or time in the texts of each row, NaN for none; shape ``(rows,)``."""
    texts = pc.binary_join_element_wise(*columns, " ")
    matches = pc.struct_field(pc.extract_regex(texts, NUMBER), "number")
    digits = pc.utf8_slice_codeunits(pc.replace_substring_regex(matches, r"[^0-9]", ""), 0, MAX_DIGITS)
    numbers: NDArray[np.float64] = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _revealing_lengths(
    split: RawSplit, texts: list[pa.Array], labels: Ids, classes: LabelBins, rule: Revealing
) -> tuple[list[Giveaway], list[str]]:
    """Return labels that a number tells, and the notes on them.

    The position of a row is in the notes only: the model does not see it.
    """
    number = len(classes.names)
    all_labels = split.labels
    is_valid = classes.task.valid(all_labels)
    ids = classes.ids(all_labels)[is_valid]

    # lengths of all rows, and numbers in the sample of texts
    lengths = split.columns.column("characters")[is_valid].astype(np.float64)
    giveaways = revealing_numbers("number of characters", lengths, ids, number, rule.precision)
    giveaways += revealing_numbers(
        "first number in the texts", first_numbers(texts), labels, number, rule.precision
    )
    notes = _sentences(giveaways, classes)

    rows = np.flatnonzero(is_valid).astype(np.float64)
    positions = revealing_numbers("row", rows, ids, number, rule.precision)
    if _coverage(positions) > rule.max:
        notes.append("The rows are sorted by label:")
        notes += _sentences(positions, classes)
    return giveaways, notes


def _coverage(giveaways: Sequence[Giveaway]) -> float:
    """Return the largest coverage."""
    return max((giveaway.coverage for giveaway in giveaways), default=0.0)


def _sentences(giveaways: Sequence[Giveaway], classes: LabelBins) -> list[str]:
    """Describe the first ones."""
    return [giveaway.sentence(classes.names) for giveaway in giveaways[:SHOWN]]
