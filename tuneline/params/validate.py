"""Section ``validate``: severities and thresholds of the data checks.

An ``error`` that fails stops the pipeline after the report is written; a ``warning`` is only reported. docs/data-checks.md gives the
reason for each default. ``stages/validate/checks.py`` defines the checks, under the same keys.
"""

from typing import Annotated, Literal

from pydantic import Field

from tuneline.params.section import Rate, Section

Severity = Literal["error", "warning"]
Positive = Annotated[int, Field(ge=1)]


class Rule(Section):
    """A check without a threshold."""

    severity: Severity


class AtMost(Rule):
    """A check with an upper limit for a fraction."""

    max: Rate
    """Largest allowed fraction of violating rows; of unknown tokens for ``unknown_rate``; of the largest class for ``class_balance``."""


class AtLeast(Rule):
    """A check with a lower limit for a fraction."""

    min: Rate


class RowCount(Rule):
    """``rows``: a lower limit for the number of rows."""

    min: Positive


class DecodedText(AtMost):
    """``decoded_text``: comparison of decoded ids with the raw texts."""

    rows: Positive
    """Rows of each split that are decoded, evenly spaced."""


class NearDuplicates(AtMost):
    """``near_duplicates``: rows of validation and test that are similar to a row of an earlier split."""

    similarity: Annotated[float, Field(gt=0, lt=1)]
    """Jaccard similarity of their word pairs from which two rows are near-duplicates."""
    rows: Positive
    """Size of the sample of validation and of test rows that is looked up; the earlier splits are searched in full."""


class Drift(Rule):
    """Limits for the distance of two distributions. The check fails if a distance is above its limit and significant."""

    max_psi: Annotated[float, Field(gt=0)]
    """Largest allowed population stability index."""
    max_ks: Annotated[float, Field(gt=0, le=1)]
    """Largest allowed Kolmogorov-Smirnov distance; not applied to class labels, which have no order."""
    significance: Annotated[float, Field(gt=0, lt=1)]
    """A distance with a p-value above this passes, however large it is, because small splits vary by chance."""


class ValidateParams(Section):
    """Parameters of every data check, by the key of the check."""

    columns: Rule = Rule(severity="error")
    rows: RowCount = RowCount(severity="error", min=20)
    missing_values: AtMost = AtMost(severity="error", max=0.0)
    blank_text: AtMost = AtMost(severity="error", max=0.0)
    control_characters: AtMost = AtMost(severity="warning", max=0.0)
    broken_encoding: AtMost = AtMost(severity="error", max=0.01)
    length_outliers: AtMost = AtMost(severity="warning", max=0.01)
    label_set: AtMost = AtMost(severity="error", max=0.0)
    absent_classes: Rule = Rule(severity="error")
    class_balance: AtMost = AtMost(severity="warning", max=0.9)
    conflicting_labels: AtMost = AtMost(severity="error", max=0.02)
    duplicates: AtMost = AtMost(severity="warning", max=0.05)
    leakage: AtMost = AtMost(severity="error", max=0.02)
    near_duplicates: NearDuplicates = NearDuplicates(severity="warning", max=0.1, similarity=0.8, rows=5000)

    row_count: Rule = Rule(severity="error")
    ids_in_vocabulary: AtMost = AtMost(severity="error", max=0.0)
    special_tokens: AtMost = AtMost(severity="error", max=0.0)
    max_length: AtMost = AtMost(severity="error", max=0.0)
    column_lengths: AtMost = AtMost(severity="error", max=0.0)
    attention_mask: AtMost = AtMost(severity="error", max=0.0)
    token_type_ids: AtMost = AtMost(severity="error", max=0.0)
    token_labels: AtMost = AtMost(severity="error", max=0.0)
    empty_rows: AtMost = AtMost(severity="error", max=0.0)
    unknown_rate: AtMost = AtMost(severity="error", max=0.05)
    truncation_rate: AtMost = AtMost(severity="error", max=0.2)
    decoded_text: DecodedText = DecodedText(severity="error", max=0.05, rows=200)

    label_drift: Drift = Drift(severity="warning", max_psi=0.25, max_ks=0.2, significance=0.001)
    length_drift: Drift = Drift(severity="warning", max_psi=0.25, max_ks=0.2, significance=0.001)
    vocabulary_overlap: AtLeast = AtLeast(severity="warning", min=0.7)

    promoted_rows: AtLeast = AtLeast(severity="warning", min=0.5)
    promoted_labels: Drift = Drift(severity="warning", max_psi=0.25, max_ks=0.2, significance=0.001)
    promoted_lengths: Drift = Drift(severity="warning", max_psi=0.25, max_ks=0.2, significance=0.001)
    promoted_vocabulary: AtLeast = AtLeast(severity="warning", min=0.7)
