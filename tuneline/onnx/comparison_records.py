"""Records of the comparison of exported models with the trained one: ``reports/compare/``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tuneline.core.stage.records import OMITTED, Number, Record


class ModelComparison(Record):
    """Comparison of one exported model with the trained model.

    Besides the keys below it has the compared metric under its name, its drop as ``METRIC_drop`` with the
    ends of the interval as ``METRIC_drop_low`` and ``METRIC_drop_high``, and ``calibration_error`` for a
    classifier.
    """

    __pydantic_extra__: dict[str, Number]

    max_abs_diff: Number
    """Largest absolute difference of a logit."""
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
