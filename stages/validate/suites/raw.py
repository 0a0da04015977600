"""What is expected of a raw split: of its rows, its labels, and of how it stands to train and to promoted data."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from great_expectations.expectations.expectation import Expectation

from stages.validate.copies import NONE
from stages.validate.distributions import Distribution
from stages.validate.expectations import (
    ExpectColumnDistinctValuesToContainSet,
    ExpectColumnLargestShareToBeAtMost,
    ExpectTableRowCountToBeBetween,
)
from stages.validate.suites.table import alike, between, expect, one_of
from tuneline.files.schemas import LABELS, UNLABELLED, LabelSchema
from tuneline.params import ValidateParams

FENCE = 3.0
"""Quartile distances beyond the quartiles from which a length is an outlier: Tukey's "far out", on logarithms of lengths."""
NARROWEST = np.log(1.5)
"""The quartile distance is taken to be at least this, lest a split of equal lengths have outliers everywhere."""


@dataclass(frozen=True)
class Reference:
    """What a split is compared with.

    Attributes:
        labels: How labels were spread; ``None`` when there were none.
        characters: How lengths were.
    """

    labels: Distribution | None
    characters: Distribution


@dataclass(frozen=True)
class RawFacts:
    """What is known of a raw split beside its table.

    Attributes:
        split: Its name.
        labels: What the labels mean.
        is_labelled: Whether it has any.
        may_be_unlabelled: Whether it may have none: not a split that is trained or reported on.
        lengths: Limits beyond which a length in characters is an outlier; ``None`` when train is not there to tell.
        columns: Of its table.
        train: The train split, for the others.
        promoted: The same split of the promoted data, when there is one.
    """

    split: str
    labels: LabelSchema
    is_labelled: bool
    may_be_unlabelled: bool
    lengths: tuple[float, float] | None
    columns: frozenset[str]
    train: Reference | None
    promoted: Reference | None


def raw_suite(params: ValidateParams, facts: RawFacts) -> list[Expectation]:
    """What is expected of one raw split."""
    return [
        expect(ExpectTableRowCountToBeBetween, "rows", params, min_value=params.rows.min),
        between(params, "missing_values", "missing", None, 0),
        between(params, "blank_text", "visible_characters", 1, None),
        between(params, "control_characters", "control_characters", None, 0),
        between(params, "broken_encoding", "broken_characters", None, 0),
        *([between(params, "length_outliers", "characters", *facts.lengths)] if facts.lengths else []),
        *_labels(params, facts),
        *(one_of(params, check, column, [NONE]) for check, column in COPIES.items() if column in facts.columns),
        *_drift(params, facts),
    ]


COPIES = {
    "conflicting_labels": "conflict_with",
    "duplicates": "duplicate_of",
    "leakage": "leak_of",
    "near_duplicates": "near_duplicate_of",
}
"""Checks of rows that repeat another, and the column that says which."""


def _labels(params: ValidateParams, facts: RawFacts) -> Iterator[Expectation]:
    if not facts.is_labelled and facts.may_be_unlabelled:
        yield one_of(params, "label_set", LABELS, [UNLABELLED])
        return
    if facts.labels.names is None:
        yield one_of(params, "label_set", "is_number", [1])
    else:
        classes = list(range(len(facts.labels.names)))
        yield one_of(params, "label_set", LABELS, classes)
        if facts.split == "train":
            yield expect(ExpectColumnDistinctValuesToContainSet, "absent_classes", params, column=LABELS, value_set=classes)
    if facts.is_labelled:
        limit = params.class_balance.max
        said = f"the most frequent value must make up at most {limit:.4g} of the rows."
        yield expect(ExpectColumnLargestShareToBeAtMost, "class_balance", params, column=LABELS, max_value=limit, description=said)


def _drift(params: ValidateParams, facts: RawFacts) -> Iterator[Expectation]:
    ordered = facts.labels.is_regression
    for reference, labels, lengths in (
        (facts.train, "label_drift", "length_drift"),
        (facts.promoted, "promoted_labels", "promoted_lengths"),
    ):
        if reference is None:
            continue
        yield from alike(params, lengths, "characters", reference.characters, ordered=True)
        if reference.labels is not None and facts.is_labelled:
            yield from alike(params, labels, LABELS, reference.labels, ordered)


def length_limits(characters: Distribution) -> tuple[float, float] | None:
    """The shortest and longest text, in characters, that is no outlier beside those of train; ``None`` when it has no rows."""
    counts = np.array(characters.counts)
    if not characters.edges:
        return None
    share = np.cumsum(counts)[:-1] / counts.sum()
    edges = np.log1p(np.array(characters.edges))
    quarter, three = (edges[min(np.searchsorted(share, level), len(edges) - 1)] for level in (0.25, 0.75))
    reach = FENCE * max(three - quarter, NARROWEST)
    return float(max(np.expm1(quarter - reach), 0.0)), float(np.expm1(three + reach))
