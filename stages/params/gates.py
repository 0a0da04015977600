"""Sections ``validate``, ``evaluate``, ``export`` and ``compare``: what must hold, and what is measured."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stages.params.section import Section

Split = Literal["train", "validation", "test"]
Precision = Literal["fp32", "int8"]
Rate = Annotated[float, Field(ge=0, le=1)]


class ValidateParams(Section):
    """``validate``: thresholds of the data checks."""

    min_rows: Annotated[int, Field(ge=1)] = 20
    max_unknown_rate: Rate = 0.05
    max_truncation_rate: Rate = 0.2


class EvaluateParams(Section):
    """``evaluate``."""

    split: Split = "test"
    """The reported split."""
    metrics: list[str] | None = None
    """``null``: the project's own metric, offline. Else names or paths for ``evaluate.load``."""
    f1: Literal["binary", "macro"] | None = None
    """``null``: binary with two classes, macro with more."""
    batch_size: Annotated[int, Field(ge=1)] = 64


class ExportParams(Section):
    """``export``."""

    opset: Annotated[int, Field(ge=18)] = 20
    precisions: Annotated[list[Precision], Field(min_length=1)] = ["fp32", "int8"]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "fp32" not in self.precisions:
            raise ValueError("precisions: 'fp32' is the one the others are made from; keep it")
        return self


class Tolerance(Section):
    """How far an exported model may be from the trained one on the reported split."""

    max_abs_diff: Annotated[float, Field(gt=0)] | None = None
    """Of any logit. ``null``: not checked."""
    min_agreement: Rate = 1.0
    """Share of rows with the same prediction."""
    max_metric_drop: Annotated[float, Field(ge=0)] = 0.0
    """Of accuracy (classification) or Pearson's r (regression)."""


class CompareParams(Section):
    """``compare``: tolerances per precision."""

    batch_size: Annotated[int, Field(ge=1)] = 64
    fp32: Tolerance = Tolerance(max_abs_diff=1e-3)
    int8: Tolerance = Tolerance(min_agreement=0.97, max_metric_drop=0.02)
