"""Section ``validate``: severities and thresholds of the data checks.

An ``error`` that fails stops the pipeline after the report is written; a ``warning`` is only reported. docs/data-checks.md gives the
reason for each default. ``stages/validate/checks.py`` defines the checks, under the same keys.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

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
    """Parameters of every data check, by the key of the check.

    A check whose parameters are ``severity`` and ``max`` needs no field here: any other key has the type ``AtMost``, and the stage
    ``validate`` refuses a key that is not a check, before it reads any data.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, AtMost] = Field(init=False)  # pydantic's place for the type of other keys

    columns: Rule
    rows: RowCount
    missing_values: AtMost
    blank_text: AtMost
    control_characters: AtMost
    broken_encoding: AtMost
    length_outliers: AtMost
    label_set: AtMost
    absent_classes: Rule
    class_balance: AtMost
    conflicting_labels: AtMost
    duplicates: AtMost
    leakage: AtMost
    near_duplicates: NearDuplicates

    row_count: Rule
    ids_in_vocabulary: AtMost
    special_tokens: AtMost
    max_length: AtMost
    column_lengths: AtMost
    attention_mask: AtMost
    token_type_ids: AtMost
    token_labels: AtMost
    empty_rows: AtMost
    unknown_rate: AtMost
    truncation_rate: AtMost
    decoded_text: DecodedText

    label_drift: Drift
    length_drift: Drift
    vocabulary_overlap: AtLeast

    promoted_rows: AtLeast
    promoted_labels: Drift
    promoted_lengths: Drift
    promoted_vocabulary: AtLeast
