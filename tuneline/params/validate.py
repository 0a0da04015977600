"""Section ``validate``: what data must be like before anything is trained on it.

Every check has a severity: an ``error`` ends the stage, and so the line, after the report is written; a ``warning`` only stands
in the report. The reason for each default is in docs/data-checks.md.
"""

from typing import Annotated, Literal

from pydantic import Field

from tuneline.params.section import Rate, Section

Severity = Literal["error", "warning"]
Positive = Annotated[int, Field(ge=1)]


class Rule(Section):
    """A check without a threshold: it holds or it does not."""

    severity: Severity


class AtMost(Rule):
    """A check of a rate."""

    max: Rate
    """Of a split's rows that may fail it; of tokens for ``unknown_rate``; of the largest class for ``class_balance``."""


class AtLeast(Rule):
    """A check of a share that should be large."""

    min: Rate


class RowCount(Rule):
    """A check of how many rows there are."""

    min: Positive


class DecodedText(AtMost):
    """``decoded_text``: ids turned back into text."""

    rows: Positive
    """Rows of each split that are decoded, evenly spread."""


class NearDuplicates(AtMost):
    """``near_duplicates``: rows of validation and test that nearly stand in an earlier split."""

    similarity: Annotated[float, Field(gt=0, lt=1)]
    """Jaccard similarity of their word pairs from which two rows are near-duplicates."""
    rows: Positive
    """Rows of validation and of test that are looked up, a sample fixed by their text; the other side is searched whole."""


class Drift(Rule):
    """How far one distribution may be from another. Beyond both the threshold and chance, the check fails."""

    max_psi: Annotated[float, Field(gt=0)]
    """Population stability index."""
    max_ks: Annotated[float, Field(gt=0, le=1)]
    """Kolmogorov-Smirnov distance; not of class labels, which have no order."""
    significance: Annotated[float, Field(gt=0, lt=1)]
    """A difference that chance alone makes more often than this is let through, however large: small splits vary."""


class ValidateParams(Section):
    """``validate``."""

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
