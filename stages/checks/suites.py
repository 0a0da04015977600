"""The suites: which expectation on which column stands for which check, built from the parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from stages.checks import expectations as gxe
from stages.checks.vocabulary import Vocabulary
from stages.params import ValidateParams
from stages.params.validate import Severity, ShareOfRows
from stages.tables import LABELS

GX_SEVERITY = {"error": FailureSeverity.CRITICAL, "warning": FailureSeverity.WARNING}


@dataclass(frozen=True)
class Table:
    """Scalar columns, and what is expected of them.

    Attributes:
        name: For example ``tokenized/train``.
        frame: One row per row of the split; its column ``row`` numbers them.
        expectations: Each knows its check: ``expectation.meta["check"]``.
    """

    name: str
    frame: pd.DataFrame
    expectations: Sequence[Expectation]


def expect(kind: type[Expectation], check: str, severity: Severity, **arguments: Any) -> Expectation:
    """An expectation that knows the check it belongs to."""
    return kind(severity=GX_SEVERITY[severity], meta={"check": check}, **arguments)


def mostly(limit: ShareOfRows) -> float:
    """The share of rows that must pass, as Great Expectations counts it."""
    return 1.0 - limit.max


def tokenized_suite(
    params: ValidateParams, vocabulary: Vocabulary, max_length: int, raw_rows: int, columns: Sequence[str]
) -> list[Expectation]:
    """What is expected of one tokenized split.

    Args:
        params: Severities and thresholds.
        vocabulary: Of the tokenizer.
        max_length: Tokens that a row may have.
        raw_rows: Rows of the raw split.
        columns: Of the table of scalar columns.
    """
    suite = [
        expect(gxe.ExpectTableRowCountToBeBetween, "rows", params.rows.severity, min_value=params.rows.min),
        expect(gxe.ExpectTableRowCountToEqual, "row_count", params.row_count.severity, value=raw_rows),
        *_between(params, "ids_in_vocabulary", {"smallest_id": (0, None), "largest_id": (None, vocabulary.largest_id)}),
        *_between(params, "max_length", {"tokens": (None, max_length)}),
        *_between(params, "attention_mask", {"smallest_mask": (1, None), "largest_mask": (None, 1)}),
        *_between(params, "empty_rows", {"content_tokens": (1, None)}),
        *_special_tokens(params, vocabulary),
        _equal(params, "column_lengths", "tokens", "mask_tokens"),
    ]
    if "type_tokens" in columns:
        limits = {"smallest_type": (0, None), "largest_type": (None, vocabulary.largest_type_id), "type_drops": (None, 0)}
        suite += [_equal(params, "column_lengths", "tokens", "type_tokens"), *_between(params, "token_type_ids", limits)]
    if f"raw_{LABELS}" in columns:
        suite.append(_equal(params, "token_labels", LABELS, f"raw_{LABELS}"))
    return suite


def _between(params: ValidateParams, check: str, limits: Mapping[str, tuple[float | None, float | None]]) -> Iterator[Expectation]:
    limit: ShareOfRows = getattr(params, check)
    for column, (low, high) in limits.items():
        kind = gxe.ExpectColumnValuesToBeBetween
        yield expect(kind, check, limit.severity, column=column, min_value=low, max_value=high, mostly=mostly(limit))


def _equal(params: ValidateParams, check: str, one: str, other: str) -> Expectation:
    limit: ShareOfRows = getattr(params, check)
    kind = gxe.ExpectColumnPairValuesToBeEqual
    return expect(kind, check, limit.severity, column_A=one, column_B=other, mostly=mostly(limit))


def _special_tokens(params: ValidateParams, vocabulary: Vocabulary) -> Iterator[Expectation]:
    limit = params.special_tokens
    for column, token in (("first_id", vocabulary.first_id), ("last_id", vocabulary.last_id)):
        if token is not None:
            kind = gxe.ExpectColumnValuesToBeInSet
            yield expect(kind, "special_tokens", limit.severity, column=column, value_set=[token], mostly=mostly(limit))
    wanted = len(vocabulary.template)
    yield from _between(params, "special_tokens", {"special_tokens": (wanted, wanted)})


def label_set(params: ValidateParams, names: Sequence[str], labelled: bool) -> Expectation:
    """Labels are ids of the label map; a split published without labels has -1 everywhere."""
    limit = params.label_set
    allowed = list(range(len(names))) if labelled else [-1]
    return expect(gxe.ExpectColumnValuesToBeInSet, "label_set", limit.severity, column=LABELS, value_set=allowed, mostly=mostly(limit))
