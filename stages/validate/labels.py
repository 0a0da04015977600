"""What the texts of the splits say about their labels: measurements and notes of three checks.

``learnable_labels`` looks for labels that have nothing to do with the texts, ``revealing_words`` and ``revealing_length`` for labels
that can be told without reading them. Words are read of a sample of bounded size; lengths and positions of all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.giveaways import Giveaway, first_numbers, revealing_numbers, revealing_words
from stages.validate.learnability import FOLDS, learnability, log_odds
from stages.validate.raw import RawSplit
from stages.validate.word_features import Ids, WordFeatures, word_features
from tuneline.files.schemas import LABELS, UNLABELLED, LabelSchema
from tuneline.files.shards import SplitReader
from tuneline.params import ValidateParams
from tuneline.params.validate import Revealing
from tuneline.tfidf import read_sample, stratified_folds

SEED = 0
MAX_ROWS = 20_000
"""Rows of each split whose words are read."""
MAX_SCORES = 1_000_000
"""Rows times classes: fewer rows are read if there are many classes. Features times classes: likewise."""
MAX_FEATURES = 50_000
MIN_ROWS_PER_CLASS = 300
"""Rows of train, on average, from which a disagreement is a statement on the labels: a model of fewer rows is often wrong itself."""
SHOWN = 5
"""Words in a note."""


@dataclass(frozen=True)
class LabelFindings:
    """What was found about the labels of one split.

    Attributes:
        columns: Measurements by name. The one with the name of a check is its metric.
        notes: What the report shows, by key of the check.
    """

    columns: dict[str, float] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassIds:
    """Class ids of labels, also of a regression: whether a number is above the median.

    Attributes:
        names: Names of the classes, for the report.
        median: Median of a regression's labels in train; ``None`` for classes.
    """

    names: tuple[str, ...]
    median: float | None

    @classmethod
    def of(cls, schema: LabelSchema, train: NDArray[Any]) -> Self:
        """Prepare for the labels of a data set, given those of train."""
        if schema.names is not None:
            return cls(tuple(f'"{name}"' for name in schema.names), None)
        median = float(np.median(train[np.isfinite(train)])) if np.isfinite(train).any() else 0.0
        return cls((f"labels up to {median:.4g}", f"labels above {median:.4g}"), median)

    def ids(self, labels: NDArray[Any]) -> Ids:
        """Return the class id of each label, -1 for a label that is invalid or missing."""
        if self.median is not None:
            return np.where(np.isfinite(labels), labels > self.median, UNLABELLED).astype(np.int64)
        return np.where((labels >= 0) & (labels < len(self.names)), labels, UNLABELLED).astype(np.int64)


def examine_labels(
    raw: Mapping[str, RawSplit], text_columns: list[str], schema: LabelSchema, params: ValidateParams
) -> dict[str, LabelFindings]:
    """Examine the labels of the raw splits.

    Args:
        raw: The raw splits by name.
        text_columns: Columns with texts.
        schema: The label schema.
        params: Least precision of what reveals a label.

    Returns:
        The findings of each split with two labels or more.
    """
    classes = ClassIds.of(schema, raw["train"].labels) if "train" in raw else None
    if classes is None or len(classes.names) < 2:
        return {}
    samples = {name: _sample(split.source, text_columns, classes) for name, split in raw.items() if split.rows}
    samples = {name: sample for name, sample in samples.items() if len(np.unique(sample.labels)) > 1}
    if not samples:
        return {}
    labels, number = np.concatenate([sample.labels for sample in samples.values()]), len(classes.names)
    texts = [pa.concat_arrays(columns) for columns in zip(*(sample.texts for sample in samples.values()), strict=True)]
    features = word_features(texts, min(MAX_FEATURES, MAX_SCORES // number))
    splits = np.repeat(list(samples), [len(sample.labels) for sample in samples.values()])
    learnt = _learnability(features, labels, splits, number)
    findings = {}
    for name, sample in samples.items():
        words = revealing_words(features, splits == name, labels, number, params.revealing_words.precision)
        lengths, notes = _revealing_lengths(raw[name], sample, classes, params.revealing_length)
        columns = {"revealing_words": _coverage(words), "revealing_length": _coverage(lengths), **learnt.get(name, {})}
        findings[name] = LabelFindings(columns, {"revealing_words": _sentences(words, classes), "revealing_length": notes})
    return findings


@dataclass(frozen=True)
class Sample:
    """Rows of a split with a valid label.

    Attributes:
        texts: The texts, one array for each column.
        labels: Class ids of shape ``(rows,)``.
    """

    texts: list[pa.Array]
    labels: Ids


def _sample(split: SplitReader, text_columns: list[str], classes: ClassIds) -> Sample:
    number = len(classes.names)
    table = read_sample(split, text_columns, number, SEED, max_rows=min(MAX_ROWS, MAX_SCORES // number))
    ids = classes.ids(pc.fill_null(table[LABELS], UNLABELLED).to_numpy())
    table = table.filter(pa.array(ids != UNLABELLED))
    return Sample([table[name].combine_chunks() for name in text_columns], ids[ids != UNLABELLED])


def _learnability(features: WordFeatures, labels: Ids, splits: NDArray[np.str_], classes: int) -> dict[str, dict[str, float]]:
    """Return the columns about the model of the train split, by split. Rows of train are predicted by models of its other folds."""
    is_train = splits == "train"
    if not is_train.any():
        return {}
    fold = np.full(len(labels), -1)
    fold[is_train] = stratified_folds(labels[is_train], FOLDS, SEED)
    odds, columns = log_odds(features, labels, fold, classes), {}
    measured = {str(split): learnability(odds[splits == split], labels[splits == split]) for split in np.unique(splits)}
    for split, found in measured.items():
        columns[split] = {"learnable_labels": found.auc, "auc_low": found.auc_interval.low, "auc_high": found.auc_interval.high}
        if split != "train":
            columns[split]["auc_drop"] = max(measured["train"].auc_interval.low - found.auc_interval.high, 0.0)
        if is_train.sum() >= MIN_ROWS_PER_CLASS * classes:
            low, high = found.disagreement_interval
            columns[split] |= {"disagreement": found.disagreement, "disagreement_low": low, "disagreement_high": high}
    return columns


def _revealing_lengths(split: RawSplit, sample: Sample, classes: ClassIds, rule: Revealing) -> tuple[list[Giveaway], list[str]]:
    """Return labels that a number tells, and the notes on them. The position of a row is in the notes only: the model does not see it."""
    ids, number = classes.ids(split.labels), len(classes.names)
    known = ids != UNLABELLED
    lengths = split.columns.column("characters")[known].astype(np.float64)
    found = [
        *revealing_numbers("number of characters", lengths, ids[known], number, rule.precision),
        *revealing_numbers("first number in the texts", first_numbers(sample.texts), sample.labels, number, rule.precision),
    ]
    positions = revealing_numbers("row", np.flatnonzero(known).astype(np.float64), ids[known], number, rule.precision)
    is_sorted = _coverage(positions) > rule.max
    return found, [*_sentences(found, classes), *(["The rows are sorted by label:", *_sentences(positions, classes)] if is_sorted else [])]


def _coverage(found: Sequence[Giveaway]) -> float:
    return max((giveaway.coverage for giveaway in found), default=0.0)


def _sentences(found: Sequence[Giveaway], classes: ClassIds) -> list[str]:
    return [giveaway.sentence(classes.names) for giveaway in found[:SHOWN]]
