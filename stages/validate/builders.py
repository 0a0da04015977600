"""How the expectations of a check are built: one builder per kind of expectation, used by the table in ``checks``.

A builder takes the check's parameters and the facts about one table, and yields the class and the arguments of each expectation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from great_expectations.expectations.core.expect_column_distinct_values_to_contain_set import ExpectColumnDistinctValuesToContainSet
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import ExpectColumnPairValuesToBeEqual
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.core.expect_table_row_count_to_equal import ExpectTableRowCountToEqual
from great_expectations.expectations.expectation import Expectation

from stages.validate.expectations import (
    ExpectColumnKsDistanceToBeAtMost,
    ExpectColumnLargestShareToBeAtMost,
    ExpectColumnShareOfTotalToBeAtMost,
    ExpectColumnStabilityIndexToBeAtMost,
)
from stages.validate.tokenizer import Vocabulary
from tuneline.drift import Distribution
from tuneline.files.schemas import LABELS, UNLABELLED, LabelSchema
from tuneline.params.validate import AtMost, Drift, RowCount, Rule


@dataclass(frozen=True)
class Facts:
    """What builders know about a table.

    Attributes:
        columns: Names of its columns.
    """

    columns: frozenset[str]


@dataclass(frozen=True)
class Reference:
    """Distributions that a split is compared with.

    Attributes:
        labels: Distribution of labels; ``None`` without labels.
        characters: Distribution of lengths in characters.
    """

    labels: Distribution | None
    characters: Distribution


@dataclass(frozen=True)
class RawFacts(Facts):
    """What builders know about a raw split.

    Attributes:
        split: Name of the split.
        labels: The label schema.
        is_labelled: True if any row has a label.
        may_be_unlabelled: True if the split is neither trained on nor reported on.
        lengths: Shortest and longest length in characters that is not an outlier; ``None`` if train cannot be read.
        train: The train split; ``None`` for train itself.
        promoted: The same split of the promoted model's data; ``None`` without a promoted profile.
    """

    split: str
    labels: LabelSchema
    is_labelled: bool
    may_be_unlabelled: bool
    lengths: tuple[float, float] | None
    train: Reference | None
    promoted: Reference | None


@dataclass(frozen=True)
class TokenizedFacts(Facts):
    """What builders know about a tokenized split.

    Attributes:
        vocabulary: Vocabulary of the tokenizer.
        max_length: Largest number of tokens per row.
        raw_rows: Rows of the raw split.
    """

    vocabulary: Vocabulary
    max_length: int
    raw_rows: int


Specs = Iterator[tuple[type[Expectation], dict[str, Any]]]
Builder = Callable[[Any, Any], Specs]
"""Takes the check's parameters (a ``Rule``) and the facts about a table (``Facts``)."""
Limit = float | Callable[[Any], float] | None
"""A limit; a function of the facts; or no limit."""


def between(column: str, low: Limit = None, high: Limit = None, *, optional: bool = False) -> Builder:
    """Expect values between two limits, in as many rows as the check requires.

    Args:
        column: The column.
        low: Smallest valid value.
        high: Largest valid value.
        optional: Expect nothing if the table does not have the column; otherwise a missing column is an error.
    """

    def build(rule: AtMost, facts: Facts) -> Specs:
        if not optional or column in facts.columns:
            least, most = (limit(facts) if callable(limit) else limit for limit in (low, high))
            yield (
                ExpectColumnValuesToBeBetween,
                {"column": column, "min_value": least, "max_value": most, "mostly": _mostly(rule)},
            )

    return build


def one_of(column: str, values: Sequence[float], *, optional: bool = False) -> Builder:
    """Expect values from a set, in as many rows as the check requires; ``optional`` as in ``between``."""

    def build(rule: AtMost, facts: Facts) -> Specs:
        if not optional or column in facts.columns:
            yield ExpectColumnValuesToBeInSet, {"column": column, "value_set": list(values), "mostly": _mostly(rule)}

    return build


def equal(left: str, right: str, *, optional: bool = False) -> Builder:
    """Expect two columns to be equal, in as many rows as the check requires; ``optional`` as in ``between``, for ``right``."""

    def build(rule: AtMost, facts: Facts) -> Specs:
        if not optional or right in facts.columns:
            yield ExpectColumnPairValuesToBeEqual, {"column_A": left, "column_B": right, "mostly": _mostly(rule)}

    return build


def measurement(column: str, *, least: str | None = None, most: str | None = None) -> Builder:
    """Expect the one value of an optional column to be within limits, given as names of the check's parameters."""

    def build(rule: Rule, facts: Facts) -> Specs:
        if column in facts.columns:
            low, high = (getattr(rule, name) if name else None for name in (least, most))
            yield ExpectColumnValuesToBeBetween, {"column": column, "min_value": low, "max_value": high}

    return build


def expected_schema(_: Rule, __: Facts) -> Specs:
    """Expect every column to have its type."""
    yield ExpectColumnPairValuesToBeEqual, {"column_A": "expected", "column_B": "found"}


def enough_rows(rule: RowCount, _: Facts) -> Specs:
    """Expect the check's ``min`` rows."""
    yield ExpectTableRowCountToBeBetween, {"min_value": rule.min}


def as_many_rows_as_raw(_: Rule, facts: TokenizedFacts) -> Specs:
    """Expect as many rows as in the raw split."""
    yield ExpectTableRowCountToEqual, {"value": facts.raw_rows}


def usual_lengths(rule: AtMost, facts: RawFacts) -> Specs:
    """Expect lengths that are not outliers."""
    if facts.lengths:
        yield from between("characters", *facts.lengths)(rule, facts)


def valid_labels(rule: AtMost, facts: RawFacts) -> Specs:
    """Expect class ids, or finite numbers; in a split that may be unlabelled, also -1 in all rows."""
    if not facts.is_labelled and facts.may_be_unlabelled:
        yield from one_of(LABELS, [UNLABELLED])(rule, facts)
    elif facts.labels.names is None:
        yield from one_of("is_number", [1])(rule, facts)
    else:
        yield from one_of(LABELS, range(len(facts.labels.names)))(rule, facts)


def all_classes(_: Rule, facts: RawFacts) -> Specs:
    """Expect every class in train."""
    if facts.split == "train" and facts.labels.names is not None:
        yield ExpectColumnDistinctValuesToContainSet, {"column": LABELS, "value_set": list(range(len(facts.labels.names)))}


def balanced_labels(rule: AtMost, facts: RawFacts) -> Specs:
    """Expect the most frequent label in at most the check's ``max`` of the rows."""
    if facts.is_labelled:
        description = f"the most frequent value must make up at most {rule.max:.4g} of the rows."
        yield ExpectColumnLargestShareToBeAtMost, {"column": LABELS, "max_value": rule.max, "description": description}


def known_tokens(rule: AtMost, _: Facts) -> Specs:
    """Expect at most the check's ``max`` of all tokens that are not special to be unknown."""
    description = f"unknown tokens must make up at most {rule.max:.4g} of all tokens that are not special."
    arguments = {"column": "unknown_tokens", "total": "content_tokens", "max_value": rule.max, "description": description}
    yield ExpectColumnShareOfTotalToBeAtMost, arguments


def template_tokens(rule: AtMost, facts: TokenizedFacts) -> Specs:
    """Expect the tokenizer's special tokens at the start and the end of each row, and as many as its template has."""
    for column, token in (("first_id", facts.vocabulary.first_id), ("last_id", facts.vocabulary.last_id)):
        if token is not None:
            yield from one_of(column, [token])(rule, facts)
    number = len(facts.vocabulary.template)
    yield from between("special_tokens", number, number)(rule, facts)


def label_drift(reference: str, check: str) -> Builder:
    """Expect labels to be distributed as in ``reference``, the name of a field of ``RawFacts``."""

    def build(rule: Drift, facts: RawFacts) -> Specs:
        other: Reference | None = getattr(facts, reference)
        if other is not None and other.labels is not None and facts.is_labelled:
            yield from _drift(rule, check, LABELS, other.labels, ordered=facts.labels.is_regression)

    return build


def length_drift(reference: str, check: str) -> Builder:
    """Expect lengths in characters to be distributed as in ``reference``, the name of a field of ``RawFacts``."""

    def build(rule: Drift, facts: RawFacts) -> Specs:
        other: Reference | None = getattr(facts, reference)
        if other is not None:
            yield from _drift(rule, check, "characters", other.characters, ordered=True)

    return build


def _drift(rule: Drift, check: str, column: str, reference: Distribution, *, ordered: bool) -> Specs:
    """Expect a small population stability index and, if values have an order, a small Kolmogorov-Smirnov distance."""
    bins = {"column": column, "edges": list(reference.edges), "counts": list(reference.counts), "significance": rule.significance}
    unless = f"or not significant (p > {rule.significance:g})"
    description = f"{check}: the population stability index must be at most {rule.max_psi}, {unless}."
    yield ExpectColumnStabilityIndexToBeAtMost, {"max_value": rule.max_psi, "description": description, **bins}
    if ordered:
        description = f"{check}: the Kolmogorov-Smirnov distance must be at most {rule.max_ks}, {unless}."
        yield ExpectColumnKsDistanceToBeAtMost, {"max_value": rule.max_ks, "description": description, **bins}


def _mostly(rule: AtMost) -> float:
    """Return the fraction of rows that must pass, an argument of Great Expectations."""
    return round(1.0 - rule.max, 12)
