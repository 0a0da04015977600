"""Records of the comparison of exported models with the trained one: ``reports/compare/``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tuneline.core.records import OMITTED, Number, Record


class ModelComparison(Record):
    """Comparison of one exported model with the trained model.

    Besides the keys below it has the compared metric under its name, its drop as ``METRIC_drop`` with the
    ends of the interval as ``METRIC_drop_low`` and ``METRIC_drop_high``, and ``calibration_error`` for a
    classifier.
    """

    __pydantic_extra__: dict[str, Number]

    max_abs_diff: Number
    """Largest absolute difference of a logit."""
    mean_abs_diff: Number
    agreement: Number
    """Mean of ``Task.agreement``: of one label per row, the fraction of rows with the same prediction."""
    agreement_low: Number | None = OMITTED
    agreement_high: Number | None = OMITTED
    """Ends of the exact interval of ``agreement``."""
    flips: int
    """Number of rows with another prediction."""
    violations: Sequence[str]
    """Exceeded tolerances, as messages."""
    unclear: Sequence[str] | None = OMITTED
    """Tolerances that these rows can neither prove nor refute, as messages; ``None`` if there are none."""
    required: bool
    """True if a violation stops the pipeline."""
    published: bool
    """True if the model is in ``models/onnx``."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the exported model, and their drops, by name."""
        return self.__pydantic_extra__


class ComparisonRecord(Record):
    """Comparison of all exported models."""

    written_by: ClassVar[str] = "compare"

    split: str
    rows: int
    metric: str
    predictions: str
    """SHA-256 of the trained model's predictions, with which the models were compared."""
    trained: Mapping[str, Number]
    models: Mapping[str, ModelComparison]


class FlippedPrediction(Record):
    """FlippedPrediction of one model for one row."""

    prediction: str | Number
    """Class name, or number."""
    probability: Number | None = OMITTED
    """Probability of the predicted class; ``None`` for a number."""


class Flip(Record):
    """A row on which an exported model and the trained model differ."""

    row: int
    text: Mapping[str, str | None]
    label: str | Number
    trained: FlippedPrediction
    exported: FlippedPrediction
    difference: Number
    """Largest absolute difference of a logit."""


class Flips(Record):
    """Some of the flips of each model, the largest difference first, under its precision."""

    __pydantic_extra__: dict[str, Sequence[Flip]]

    written_by: ClassVar[str] = "compare"

    def of(self, precision: str) -> Sequence[Flip]:
        """Return the flips of one model."""
        return self.__pydantic_extra__.get(precision, ())
