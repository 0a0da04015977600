"""Exported models beside the trained one: ``reports/compare/comparison.json`` and ``flips.json``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tuneline.records.record import OMITTED, Number, Record


class Saturation(Record):
    """Result of the saturation check of an int8 model."""

    possible: bool
    """True if some activations make a sum of two products exceed 16 bits."""
    largest_sum: int
    """Largest magnitude that the sum of two products can have."""
    sums: int
    """Sums that were computed; 0 where none can saturate."""
    saturated: int
    """Those of them that exceed 16 bits."""


class ModelComparison(Record):
    """Comparison of one exported model with the trained model.

    Besides the keys below it has the compared metric under its name, its drop as ``METRIC_drop`` with the ends of the interval as
    ``METRIC_drop_low`` and ``METRIC_drop_high``, and ``calibration_error`` for a classifier.
    """

    __pydantic_extra__: dict[str, Number]

    max_abs_diff: Number
    """Largest absolute difference of a logit."""
    mean_abs_diff: Number
    """Mean absolute difference of the logits."""
    agreement: Number
    """Fraction of rows with the same prediction."""
    flips: int
    """Number of rows with another prediction."""
    saturation: Saturation | None = OMITTED
    """Only of a model with 8-bit products."""
    violations: Sequence[str]
    """Exceeded tolerances, as messages."""
    required: bool
    """True if a violation stops the pipeline."""
    published: bool
    """True if the model is in ``models/onnx``."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the exported model, and their drops, by name."""
        return self.__pydantic_extra__


class Comparison(Record):
    """Comparison of all exported models."""

    written_by: ClassVar[str] = "compare"

    split: str
    """The reported split."""
    rows: int
    metric: str
    """Name of the compared metric."""
    trained: Mapping[str, Number]
    """Metrics of the trained model."""
    models: Mapping[str, ModelComparison]
    """By precision."""


class Prediction(Record):
    """Prediction of one model for one row."""

    prediction: str | Number
    """Class name; number of a regression."""
    probability: Number | None = OMITTED
    """Of the predicted class."""


class Flip(Record):
    """A row on which an exported model and the trained model differ."""

    row: int
    """Row number in the reported split."""
    text: Mapping[str, str | None]
    """By column."""
    label: str | Number
    trained: Prediction
    exported: Prediction
    difference: Number
    """Largest absolute difference of a logit."""


class Flips(Record):
    """Some of the flips of each model, the largest difference first, under its precision."""

    __pydantic_extra__: dict[str, Sequence[Flip]]

    written_by: ClassVar[str] = "compare"

    def of(self, precision: str) -> Sequence[Flip]:
        """Return the flips of one model."""
        return self.__pydantic_extra__.get(precision, ())
