"""Sections ``evaluate``, ``export`` and ``compare``: the metrics, the ONNX models, and their tolerances."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.section import Rate, Section

Split = Literal["train", "validation", "test"]
Precision = Literal["fp32", "fp16", "int8"]


class EvaluateParams(Section):
    """Section ``evaluate``."""

    split: Split
    """The reported split."""
    metrics: list[str] | None
    """Names or paths of metrics for ``evaluate.load``. ``null``: the project's own metrics, which need no network."""
    f1: Literal["binary", "macro"] | None
    """Averaging of F1 over the classes. ``null``: binary with two classes, macro with more."""
    batch_size: Annotated[int, Field(ge=1)]
    """Rows per batch."""
    behaviour: Annotated[str, Field(pattern=r"^[\w-]+$")] | None
    """Behavioural tests, from ``conf/behaviour/NAME.yaml``. ``null``: none."""


class Int8Params(Section):
    """``export.int8``."""

    method: Literal["dynamic", "static", "best"]
    """``dynamic``: ranges of activations are computed for each batch. ``static``: they are computed once, on calibration rows.
    ``best``: the method whose logits are closer to those of fp32 on the validation split."""
    calibration_rows: Annotated[int, Field(ge=1)]
    """Number of calibration rows of ``static``, sampled from the train split with ``seed``."""
    reduce_range: bool
    """Weights of 7 bits, which give the same products on every processor. With 8 bits, products saturate on x86 processors
    without VNNI instructions, and predictions are wrong without an error: set ``false`` only if every server has VNNI."""


class ExportParams(Section):
    """Section ``export``."""

    opset: Annotated[int, Field(ge=18, le=23)]
    """Version of the ONNX operator set. The exporter supports 18 and later."""
    precisions: Annotated[list[Precision], Field(min_length=1)]
    """Precisions to export. fp32 is required, because the others are converted from it."""
    int8: Int8Params
    """How the int8 model is quantized."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "fp32" not in self.precisions:
            raise ValueError("precisions: 'fp32' is required, because the other precisions are converted from it")
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("precisions: one of them is listed twice")
        return self


class Tolerance(Section):
    """How far an exported model may differ from the trained one on the reported split."""

    max_abs_diff: Annotated[float, Field(gt=0)] | None
    """Maximal absolute difference of any logit. ``null``: not checked."""
    min_agreement: Rate
    """Minimal fraction of rows with the same prediction."""
    max_metric_drop: Annotated[float, Field(ge=0)]
    """Maximal decrease of accuracy (classification) or Pearson's r (regression)."""
    required: bool
    """True if the pipeline stops when the model fails. ``false``: it continues without publishing the model."""


class Int8Tolerance(Tolerance):
    """Tolerances of int8, whose products may depend on the processor."""

    allow_saturation: bool
    """Publish a model whose 8-bit products can exceed 16 bits (``export.int8.reduce_range: false``)."""


class CompareParams(Section):
    """Section ``compare``: tolerances by precision."""

    batch_size: Annotated[int, Field(ge=1)]
    """Rows per batch of ONNX Runtime."""
    close: Annotated[float, Field(gt=0)]
    """Regression: two predictions agree if they differ by at most this fraction of the labels' standard deviation."""
    fp32: Tolerance
    """Tolerances of the fp32 model."""
    fp16: Tolerance
    """Tolerances of the fp16 model."""
    int8: Int8Tolerance
    """Tolerances of the int8 model."""

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance of one precision."""
        return {"fp32": self.fp32, "fp16": self.fp16, "int8": self.int8}[precision]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.fp32.required:
            raise ValueError("fp32.required: the pipeline always publishes fp32; widen its tolerances instead")
        return self
