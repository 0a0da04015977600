"""Section ``validate``: what data must be like before anything is trained on it.

Every check has a severity: an ``error`` ends the stage, and so the line, after the report is written; a ``warning`` stands in
the report. The reason for each default is in docs/data-checks.md.
"""

from typing import Annotated, Literal

from pydantic import Field

from stages.params.section import Section

Severity = Literal["error", "warning"]
Rate = Annotated[float, Field(ge=0, le=1)]


class Rule(Section):
    """A check without a threshold: it holds or it does not."""

    severity: Severity


class ShareOfRows(Section):
    """A check of every row."""

    severity: Severity
    max: Rate
    """Share of a split's rows that may fail it."""


class RowCount(Section):
    """A check of how many rows there are."""

    severity: Severity
    min: Annotated[int, Field(ge=1)]


class ValidateParams(Section):
    """``validate``."""

    columns: Rule = Rule(severity="error")
    rows: RowCount = RowCount(severity="error", min=20)
    row_count: Rule = Rule(severity="error")
    label_set: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    ids_in_vocabulary: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    special_tokens: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    max_length: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    column_lengths: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    attention_mask: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    token_type_ids: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    token_labels: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    empty_rows: ShareOfRows = ShareOfRows(severity="error", max=0.0)
    unknown_rate: ShareOfRows = ShareOfRows(severity="error", max=0.05)
    truncation_rate: ShareOfRows = ShareOfRows(severity="error", max=0.2)
