"""Section ``validate``: severities and limits of the data checks.

An ``error`` that fails stops the pipeline after the report is written; a ``warning`` is only reported.
docs/data-checks.md describes the checks. ``tuneline/checks/definitions.py`` defines them.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from tuneline.core.params.section import Positive, PositiveFloat, Rate, Section

CheckSeverity = Literal["error", "warning", "ignore"]
ERROR_CHECKS = (
    "rows", "blank_text", "broken_encoding", "label_set", "absent_classes",
    "conflicting_labels", "leakage", "row_count", "ids_in_vocabulary", "special_tokens", "max_length",
    "column_lengths", "attention_mask", "token_type_ids", "token_labels", "empty_rows", "unknown_rate",
    "truncation_rate",
)  # fmt: skip
"""Checks that stop the pipeline, unless ``severity`` says otherwise."""
WARNING_CHECKS = (
    "control_characters", "length_outliers", "rare_classes",
    "class_names", "class_balance", "duplicates", "near_duplicates", "revealing_words",
    "word_pieces", "label_drift", "length_drift", "vocabulary_overlap", "promoted_rows",
    "promoted_labels", "promoted_lengths", "promoted_vocabulary",
)  # fmt: skip
"""Checks that are only reported, unless ``severity`` says otherwise."""


class DataDriftLimits(Section):
    """Checks of drift: validation and test against train, each split against the promoted model's data.

    A distribution has drifted if a distance is above its limit and significant.
    """

    max_psi: PositiveFloat = 0.25
    """Largest population stability index of labels and of lengths."""
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """A distance with a p-value above this passes: small splits vary by chance."""
    min_vocabulary: Rate = 0.7
    """Smallest fraction of the word occurrences that are words of the other data."""
    min_rows: Rate = 0.5
    """Smallest number of rows, as a fraction of that of the promoted model's data."""


class ValidateParams(Section):
    """Limits of the data checks. A limit with the name of a check is a fraction of the rows of a split."""

    severity: Mapping[str, CheckSeverity] = {}
    """Severities that are not the default ones: error, warning or ignore, by check."""
    min_rows: Positive = 20
    """``rows``: smallest number of rows of a split."""
    min_class_rows: Positive = 5
    """``rare_classes``: smallest number of rows of a class in train."""
    broken_encoding: Rate = 0.01
    """Rows with U+FFFD, or UTF-8 that was read as Latin-1 or Windows-1252."""
    length_outliers: Rate = 0.01
    """Rows that are far longer or shorter than most rows of train."""
    class_balance: Rate = 0.9
    """Rows of the most frequent label, or without any."""
    conflicting_labels: Rate = 0.02
    """Rows whose text has another label, too; in a regression, by more than a standard deviation."""
    duplicates: Rate = 0.05
    """Rows that repeat an earlier row of their split."""
    leakage: Rate = 0.02
    """Rows of validation and test that are in an earlier split."""
    near_duplicates: Rate = 0.25
    """Rows that resemble another row of their split or an earlier one."""
    near_duplicate_similarity: Annotated[float, Field(ge=0.4, lt=1)] = 0.5
    """Fraction of the words that two near-duplicates have in common; rare words count more."""
    revealing_words: Rate = 0.25
    """Rows of a label with the same word or word pair, which hardly another row has."""
    unknown_rate: Rate = 0.05
    """Tokens that the vocabulary does not have."""
    truncation_rate: Rate = 0.2
    """Rows that fill ``tokenize.max_length``."""
    drift: DataDriftLimits = DataDriftLimits()
    """Limits of the drift of labels, lengths, words and rows."""

    @field_validator("severity")
    @classmethod
    def _of_checks(cls, severities: Mapping[str, CheckSeverity]) -> Mapping[str, CheckSeverity]:
        for name in severities:
            if name not in ERROR_CHECKS + WARNING_CHECKS:
                close = difflib.get_close_matches(name, ERROR_CHECKS + WARNING_CHECKS, n=1) or [
                    "one of docs/data-checks.md"
                ]
                raise ValueError(f"{name} is not a data check; did you mean {close[0]}?")
        return severities

    def severity_of(self, check: str) -> CheckSeverity:
        """Return the severity of a check."""
        return self.severity.get(check, "error" if check in ERROR_CHECKS else "warning")
