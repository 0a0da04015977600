"""Sections ``evaluate``, ``export`` and ``compare``: the metrics, the ONNX models, and their tolerances."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.section import FunctionName, Positive, PositiveFloat, Rate, Section

Split = Literal["train", "validation", "test"]
Precision = Literal["fp32", "fp16", "int8"]


class EvaluateParams(Section):
    """Section ``evaluate``."""

    split: Split = "test"
    """The reported split."""
    metrics: list[str] | None = None
    """More metrics: functions of the user, ``project/FILE.py:FUNCTION`` (docs/custom-loss.md)."""
    batch_size: Positive = 64
    """Rows per batch, or windows of them; fewer where they have more than 512 tokens."""
    behaviour: Annotated[str, Field(pattern=r"^[\w-]+$")] | None = None
    """Behavioural tests, from ``conf/behaviour/NAME.yaml``. ``null``: none."""

    @property
    def functions(self) -> list[FunctionName]:
        """The functions that ``metrics`` names."""
        return [FunctionName.parse("metrics", text) for text in self.metrics or []]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [name.function for name in self.functions]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"metrics: two functions are named {name!r}, which is their key in"
                    " metrics/evaluate.json; rename one"
                )
        return self


class Int8Params(Section):
    """``export.int8``."""

    method: Literal["dynamic", "smoothed", "static", "per_token", "best"] = "best"
    """``dynamic``: ranges of activations by batch.

    ``smoothed``: likewise, after SmoothQuant. ``static``: ranges once, from calibration
    rows. ``per_token``: ranges by token. ``best``: the first that agrees with fp32 on the validation split,
    of ``smoothed``, the same with layers in fp32, and ``dynamic``; else the first that no later one agrees
    better than beyond noise.
    """
    batch_invariant: bool = False
    """Logits of a row have the same bits beside any other rows, if they are padded to the same length.

    With a frozen head, they differ in the last digits, as those of fp32. ``best`` then tries ``per_token``,
    and the same with layers in fp32. What it costs: docs/serving.md.
    """
    calibration_rows: Positive = 256
    """Number of calibration rows of ``smoothed`` and ``static``, sampled from the train split with ``seed``.
    """
    max_fp32: Rate = 0.2
    """``best``: largest fraction of the linear layers' weights that stays in fp32 where predictions change by
    int8. ``0``: none.
    """
    search_models: Positive = 6
    """``best``: number of int8 models that are made and measured at most."""
    search_rows: Positive = 256
    """``best``: number of rows of the validation split that each is measured on, at most.

    Six models on 256 rows take about a quarter of the time of the shortest training that ``tuneline init``
    proposes.
    """
    reduce_range: bool = True
    """Weights of 7 bits, with the same products on every processor.

    ``false``: 8 bits, only if every server has VNNI; elsewhere products
    saturate, and predictions are wrong without an error."""

    @model_validator(mode="after")
    def _same_bits(self) -> Self:
        if self.batch_invariant and self.method in {"dynamic", "smoothed"}:
            raise ValueError(
                f"batch_invariant: the ranges of method {self.method!r} are those of a batch; set method:"
                " per_token, static or best"
            )
        return self


class ExportParams(Section):
    """Section ``export``."""

    opset: Annotated[int, Field(ge=18, le=23)] = 20
    """Version of the ONNX operator set. The exporter supports 18 and later."""
    precisions: Annotated[list[Precision], Field(min_length=1)] = ["fp32", "int8"]
    """Precisions to export. fp32 is required, because the others are converted from it."""
    int8: Int8Params
    """How the int8 model is quantized."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "fp32" not in self.precisions:
            raise ValueError(
                "precisions: 'fp32' is required, because the other precisions are converted from it"
            )
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("precisions: one of them is listed twice")
        return self


class Tolerance(Section):
    """How far an exported model may differ from the trained one on the reported split."""

    max_abs_diff: PositiveFloat | None
    """Maximal absolute difference of any logit. ``null``: not checked."""
    min_agreement: Rate
    """Minimal fraction of rows with the same prediction.

    Of rows with several labels, it is the mean F1 of the sets of the exported model, where the sets of the
    trained one are taken as true.
    """
    max_metric_drop: Annotated[float, Field(ge=0)]
    """Maximal decrease of the metric that decides (``train.metric``)."""
    required: bool
    """True if the pipeline stops when the model fails, as always for fp32.

    ``false``: it continues without publishing the model.
    """


class Int8Tolerance(Tolerance):
    """Tolerances of int8, whose products may depend on the processor."""

    allow_saturation: bool = False
    """Publish a model whose 8-bit products can exceed 16 bits (``export.int8.reduce_range: false``)."""


class CompareParams(Section):
    """Section ``compare``: tolerances by precision."""

    batch_size: Positive = 64
    """Rows per batch of ONNX Runtime, or windows of them; fewer where they have more than 512 tokens."""
    close_rmse: PositiveFloat = 0.25
    """Regression: two predictions agree if they differ by at most so many root mean squared errors of the
    trained model.
    """
    fp32: Tolerance = Tolerance(
        max_abs_diff=1.0e-3, min_agreement=0.9999, max_metric_drop=1.0e-4, required=True
    )
    """Tolerances of the fp32 model."""
    fp16: Tolerance = Tolerance(max_abs_diff=0.05, min_agreement=0.99, max_metric_drop=0.005, required=False)
    """Tolerances of the fp16 model. It fails if an interval lies beyond them: docs/serving.md."""
    int8: Int8Tolerance = Int8Tolerance(
        max_abs_diff=None, min_agreement=0.97, max_metric_drop=0.02, required=False
    )
    """Tolerances of the int8 model, held against intervals likewise."""

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance of one precision."""
        return {"fp32": self.fp32, "fp16": self.fp16, "int8": self.int8}[precision]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.fp32.required:
            raise ValueError(
                "fp32.required: the pipeline always publishes fp32; widen its tolerances instead"
            )
        return self


class CostParams(Section):
    """``decide.costs``: what errors cost, in any unit; a right answer costs nothing."""

    error: PositiveFloat = 1.0
    """Cost of a wrong answer that ``of`` does not name."""
    abstain: PositiveFloat | None = None
    """Cost of no answer, such as a person who reads the row. ``null``: every row gets an answer."""
    of: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = {}
    """Cost of single errors, by the class that is right and the class that is answered:
    ``{fraud: {ok: 50}}``.
    """


class DecideParams(Section):
    """Section ``decide``: what is done with the probabilities of a model, see docs/decide.md."""

    costs: CostParams | None = None
    """What errors and abstentions cost, of one class per row. ``null``: the most probable class is the
    answer.
    """
