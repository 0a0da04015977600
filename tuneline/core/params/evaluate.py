"""Sections ``evaluate``, ``export`` and ``compare``: the metrics, the ONNX models, and their tolerances."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.core.params.section import FunctionName, PositiveFloat, Rate, Section

Split = Literal["train", "validation", "test"]
Precision = Literal["fp32", "int8"]


class EvaluateParams(Section):
    """Section ``evaluate``."""

    split: Split = "test"
    """The reported split."""
    metrics: list[str] | None = None
    """More metrics: functions of the user, ``project/FILE.py:FUNCTION`` (docs/custom-loss.md)."""

    @property
    def functions(self) -> list[FunctionName]:
        """The functions that ``metrics`` names."""
        return [FunctionName.parse("metrics", text) for text in self.metrics or []]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = {name.function for name in self.functions}
        if len(names) < len(self.functions):
            raise ValueError(
                "metrics: two functions have one name, which is their key in metrics/evaluate.json"
            )
        return self


class ExportParams(Section):
    """Section ``export``."""

    opset: Annotated[int, Field(ge=18, le=23)] = 20
    """Version of the ONNX operator set. The exporter supports 18 and later."""
    precisions: Annotated[list[Precision], Field(min_length=1)] = ["fp32", "int8"]
    """Precisions to export. fp32 is required, because the others are converted from it."""

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

    min_agreement: Rate
    """Minimal fraction of rows with the same prediction.

    Of rows with several labels, it is the mean F1 of the sets of the exported model, where the sets of the
    trained one are taken as true.
    """
    max_metric_drop: Annotated[float, Field(ge=0)]
    """Maximal decrease of the metric that decides (``train.metric``)."""


class Fp32Tolerance(Tolerance):
    """Tolerances of fp32, which computes what the trained model does."""

    max_abs_diff: PositiveFloat
    """Maximal absolute difference of any logit."""


class Int8Tolerance(Tolerance):
    """Tolerances of int8, held against intervals: docs/serving.md."""

    required: bool = False
    """True if the pipeline stops when the model fails, as always for fp32.

    ``false``: it continues without publishing the model.
    """


class CompareParams(Section):
    """Section ``compare``: tolerances by precision."""

    close_rmse: PositiveFloat = 0.25
    """Regression: two predictions agree if they differ by at most so many root mean squared errors of the
    trained model.
    """
    fp32: Fp32Tolerance = Fp32Tolerance(max_abs_diff=1.0e-3, min_agreement=0.9999, max_metric_drop=1.0e-4)
    """Tolerances of the fp32 model."""
    int8: Int8Tolerance = Int8Tolerance(min_agreement=0.97, max_metric_drop=0.02)
    """Tolerances of the int8 model. It fails if an interval lies beyond them: docs/serving.md."""

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance of one precision."""
        return self.fp32 if precision == "fp32" else self.int8

    def stops(self, precision: str) -> bool:
        """Return True if a model that fails stops the pipeline: fp32 is always published."""
        return precision == "fp32" or self.int8.required


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

    @property
    def named_classes(self) -> set[str]:
        """The classes that ``costs.of`` names."""
        classes: set[str] = set()
        if self.costs is not None:
            classes.update(self.costs.of, *self.costs.of.values())
        return classes
