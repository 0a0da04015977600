"""Sections ``export`` and ``compare``: what is made for ONNX Runtime, and how far it may be from the trained model."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.section import Section

Precision = Literal["fp32", "fp16", "int8"]
Rate = Annotated[float, Field(ge=0, le=1)]


class Int8Params(Section):
    """``export.int8``."""

    method: Literal["dynamic", "static", "best"] = "best"
    """``dynamic``: weights in 8 bits, activations measured batch by batch. ``static``: activations measured once, on
    calibration rows. ``best``: both, and the one kept whose logits are closer to fp32 on the validation split."""
    calibration_rows: Annotated[int, Field(ge=1)] = 256
    """Rows of the train split, drawn with ``seed``, on which ``static`` measures activations."""
    reduce_range: bool = True
    """Weights in 7 bits, which give the same products on every processor. In 8 bits they saturate on x86 processors without
    VNNI instructions, and predictions go wrong without an error: for servers that are known to have VNNI."""


class ExportParams(Section):
    """``export``."""

    opset: Annotated[int, Field(ge=18, le=23)] = 20
    """Version of the ONNX operators. 18 is the oldest that the exporter writes."""
    precisions: Annotated[list[Precision], Field(min_length=1)] = ["fp32", "int8"]
    int8: Int8Params = Int8Params()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "fp32" not in self.precisions:
            raise ValueError("precisions: 'fp32' is the one the others are made from; keep it")
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("precisions: one of them stands there twice")
        return self


class Tolerance(Section):
    """How far an exported model may be from the trained one on the reported split."""

    max_abs_diff: Annotated[float, Field(gt=0)] | None = None
    """Of any logit. ``null``: not checked."""
    min_agreement: Rate = 1.0
    """Share of rows with the same prediction."""
    max_metric_drop: Annotated[float, Field(ge=0)] = 0.0
    """Of accuracy (classification) or Pearson's r (regression)."""
    required: bool = True
    """Whether the line stops when the model fails. ``false``: it goes on, and the model is not published."""


class Int8Tolerance(Tolerance):
    """The same for int8, whose products may depend on the processor."""

    allow_saturation: bool = False
    """Publish a model whose 8-bit products can exceed 16 bits (``export.int8.reduce_range: false``)."""


class CompareParams(Section):
    """``compare``: tolerances per precision."""

    batch_size: Annotated[int, Field(ge=1)] = 64
    close: Annotated[float, Field(gt=0)] = 0.05
    """Regression: two predictions agree when they differ by at most this share of the labels' standard deviation."""
    fp32: Tolerance = Tolerance(max_abs_diff=1e-3, min_agreement=0.9999, max_metric_drop=1e-4)
    fp16: Tolerance = Tolerance(max_abs_diff=0.05, min_agreement=0.99, max_metric_drop=0.005)
    int8: Int8Tolerance = Int8Tolerance(min_agreement=0.97, max_metric_drop=0.02)

    def tolerance(self, precision: str) -> Tolerance:
        """The tolerance of one precision."""
        return {"fp32": self.fp32, "fp16": self.fp16, "int8": self.int8}[precision]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.fp32.required:
            raise ValueError("fp32.required: the line has no ONNX model without fp32; widen its tolerances instead")
        return self
